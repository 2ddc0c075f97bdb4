"use strict";
// All numbers were computed when the file was written: the slider only replaces texts and attributes.
const levels = JSON.parse(document.getElementById("levels").textContent);
const slider = document.getElementById("level");
const caption = document.getElementById("level-caption");
const elementsWith = (data) => {
  const elements = new Map();
  for (const element of document.querySelectorAll(`[data-${data}]`)) elements.set(element.dataset[data], element);
  return elements;
};
const withText = elementsWith("text");
const withAttributes = elementsWith("attributes");

function showLevel() {
  const index = Number(slider.value);
  for (const [id, values] of Object.entries(levels.texts)) withText.get(id).textContent = values[index];
  for (const [id, attributes] of Object.entries(levels.attributes))
    for (const [name, values] of Object.entries(attributes)) withAttributes.get(id).setAttribute(name, values[index]);
  caption.textContent = levels.captions[index];
  slider.setAttribute("aria-valuetext", `level ${levels.levels[index]}`);
}

document.getElementById("level-control").hidden = false;
slider.addEventListener("input", showLevel);
addEventListener("pageshow", showLevel); // a browser may restore the slider's position
showLevel();

const details = [...document.querySelectorAll("details")];
let wereOpen = [];
addEventListener("beforeprint", () => {
  wereOpen = details.map((each) => each.open);
  details.forEach((each) => (each.open = true));
});
addEventListener("afterprint", () => details.forEach((each, index) => (each.open = wereOpen[index])));
