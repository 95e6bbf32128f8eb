// The view library, Preact with htm, and how the page uses it: what a part of the page shows is a
// function of the page's state, and whoever changes the state calls draw.

const { h, render, Component } = preact;
const { useState, useRef, useLayoutEffect } = preactHooks;

// htm keeps elements without variable parts for the next time, and with them, through their
// parents, what the page showed. 3 forbids that: nothing of an erased record may stay in memory.
const html = htm.bind(function element(...parts) {
  this[0] = 3;
  return h(...parts);
});

const $ = (id) => document.getElementById(id);

/** The components that are drawn, by the elements that they fill. */
const drawn = new Map();

/** Fills an element with a component, with each draw. */
const fill = (element, component) => drawn.set(element, component);

/** Shows the state of the page. What is hidden is drawn when it is shown again. */
function draw() {
  for (const [element, component] of drawn) if (!element.closest('[hidden]')) render(html`<${component} />`, element);
}

/** Shows the state of the page also where it is hidden, so that nothing of what was there is left. */
function drawAll() {
  for (const [element, component] of drawn) render(html`<${component} />`, element);
}

/** Sets the text of an element if it differs. */
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Announces a visible change to users of screen readers. */
function announce(text) {
  say($('announcer'), '');
  setTimeout(() => say($('announcer'), text), 100);
}
