// Buttons that copy the text of the element they name. Without a clipboard the text is selected instead.
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  const select = () => getSelection().selectAllChildren(source);
  if (navigator.clipboard) navigator.clipboard.writeText(source.textContent).then(() => { button.textContent = "✓"; }, select);
  else select();
});
