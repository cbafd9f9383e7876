// Asks the browser for a passkey and sends its answer with the form: what is asked stands in the form, or at its address.
"use strict";
(() => {
  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
  const text = (buffer) =>
    buffer ? btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "") : null;
  const listed = (some) => (some || []).map((each) => ({ ...each, id: bytes(each.id) }));

  async function asked(form) {
    if (form.dataset.options) return JSON.parse(form.dataset.options);
    const answer = await fetch(form.dataset.optionsAddress, {
      method: "POST",
      headers: { "X-CSRFToken": form.elements.csrfmiddlewaretoken.value },
    });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return answer.json();
  }

  async function answered(form) {
    const options = await asked(form);
    const publicKey = { ...options, challenge: bytes(options.challenge) };
    if (form.dataset.passkey === "create") {
      publicKey.user = { ...options.user, id: bytes(options.user.id) };
      publicKey.excludeCredentials = listed(options.excludeCredentials);
    } else {
      publicKey.allowCredentials = listed(options.allowCredentials);
    }
    const made =
      form.dataset.passkey === "create"
        ? await navigator.credentials.create({ publicKey })
        : await navigator.credentials.get({ publicKey });
    const { response } = made;
    const said = { clientDataJSON: text(response.clientDataJSON) };
    if (response.attestationObject) {
      said.attestationObject = text(response.attestationObject);
    } else {
      Object.assign(said, { authenticatorData: text(response.authenticatorData), signature: text(response.signature) });
      if (response.userHandle) said.userHandle = text(response.userHandle);
    }
    return JSON.stringify({ id: made.id, rawId: text(made.rawId), type: made.type, response: said, clientExtensionResults: {} });
  }

  for (const form of document.querySelectorAll("form[data-passkey]")) {
    if (!window.PublicKeyCredential) {
      form.hidden = true;
      continue;
    }
    form.hidden = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const failed = form.querySelector("[data-failed]");
      failed.hidden = true;
      try {
        form.elements.answer.value = await answered(form);
        form.submit();
      } catch (error) {
        failed.hidden = false;
      }
    });
  }
})();
