"use strict";
(function () {
  var root = document.documentElement;
  var button = document.getElementById("theme");
  var store = null;
  try { store = window.localStorage; } catch (_) { store = null; }
  function remembered() {
    try { return store && store.getItem("barewire-theme"); } catch (_) { return null; }
  }
  function dark() {
    var set = root.getAttribute("data-theme");
    return set ? set === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
  }
  function name() {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", dark() ? "Switch to light colours" : "Switch to dark colours");
  }
  var before = remembered();
  if (before === "dark" || before === "light") root.setAttribute("data-theme", before);
  button.hidden = false;
  name();
  button.addEventListener("click", function () {
    var next = dark() ? "light" : "dark";
    root.setAttribute("data-theme", next);
    try { if (store) store.setItem("barewire-theme", next); } catch (_) { /* a page from a file may not store */ }
    name();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);

  // Points of a chart by arrow keys: each is read out below the drawing. Who points with a mouse sees it, and is not told it as well.
  document.querySelectorAll("figure").forEach(function (figure) {
    var said = figure.querySelector(".said");
    figure.querySelectorAll("svg.chart").forEach(function (svg) {
      var marks = Array.prototype.filter.call(svg.querySelectorAll(".mk, rect"), function (m) {
        return m.querySelector("title");
      });
      if (!marks.length || !said) return;
      var at = -1;
      function show(next, byKey) {
        said.setAttribute("aria-live", byKey ? "polite" : "off");
        if (at >= 0) marks[at].classList.remove("here");
        at = next;
        if (at < 0) { said.textContent = ""; return; }
        marks[at].classList.add("here");
        said.textContent = marks[at].querySelector("title").textContent;
      }
      svg.setAttribute("tabindex", "0");
      svg.addEventListener("keydown", function (event) {
        var step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (event.key === "Escape") { show(-1, true); return; }
        if (!step) return;
        event.preventDefault();
        show((Math.max(at, step > 0 ? -1 : 0) + step + marks.length) % marks.length, true);
      });
      // Before the first key, or what it says could come too early to be read out.
      svg.addEventListener("focus", function () { said.setAttribute("aria-live", "polite"); });
      svg.addEventListener("blur", function () { show(-1, false); });
      marks.forEach(function (mark, index) {
        mark.addEventListener("pointerenter", function () { show(index, false); });
        mark.addEventListener("click", function () { show(index, false); });
      });
    });
  });
})();
