// Keeps the theme's scripts within the content security policy, which admits no style written into the page. Stands
// before Alpine, and before htmx begins at the end of the document.

// Its rules for indicators are in admin.css instead. It shall evaluate nothing and run no script of an answer either.
Object.assign(htmx.config, { includeIndicatorStyles: false, allowEval: false, allowScriptTags: false });

// Alpine binds whole `style` attributes. The policy refuses the attribute, and admits the same through the object.
const setAttribute = Element.prototype.setAttribute;
Element.prototype.setAttribute = function (name, value) {
  if (name === "style" && this.style) this.style.cssText = value;
  else setAttribute.call(this, name, value);
};
