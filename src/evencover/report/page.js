"use strict";
// Everything was computed beforehand: moving the slider puts other numbers in their places.
const levels = JSON.parse(document.getElementById("levels").textContent);
const slider = document.getElementById("level");
const shown = document.getElementById("level-shown");
const places = (kind) => {
  const found = new Map();
  for (const element of document.querySelectorAll(`[data-${kind}]`)) found.set(element.dataset[kind], element);
  return found;
};
const texts = places("text");
const marks = places("mark");

function show(place) {
  for (const [id, values] of Object.entries(levels.texts)) texts.get(id).textContent = values[place];
  for (const [id, attributes] of Object.entries(levels.marks))
    for (const [name, values] of Object.entries(attributes)) marks.get(id).setAttribute(name, values[place]);
  shown.textContent = levels.levels[place];
  slider.setAttribute("aria-valuetext", `level ${levels.levels[place]}`);
}

document.getElementById("level-control").hidden = false;
slider.addEventListener("input", () => show(Number(slider.value)));
show(Number(slider.value)); // a browser may keep the slider where it was
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => (each.open = true)));
