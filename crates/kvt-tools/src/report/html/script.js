"use strict";
// Values under the pointer, switches for lines, and folded parts opened for printing. Everything is there to be read without it.
(() => {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const part of opened) part.open = true;
  });
  addEventListener("afterprint", () => {
    for (const part of opened) part.open = false;
  });

  const list = (text) => (text ? text.split(" ") : []);
  const short = (text, digits) => String(Number(Number(text).toPrecision(digits)));
  const make = (parent, name, className) => {
    const element = parent.appendChild(document.createElementNS(parent.namespaceURI, name));
    if (className) element.setAttribute("class", className);
    return element;
  };

  for (const figure of document.querySelectorAll("figure.chart")) {
    const plot = figure.querySelector(".plot");
    const axes = figure.querySelector(".axes");
    const [left, right, first, last] = list(axes.dataset.scale).map(Number);
    const [top, bottom] = list(axes.dataset.edges).map(Number);
    const lines = [...axes.querySelectorAll(".series")].map((group) => ({
      group,
      name: group.dataset.name,
      kind: group.getAttribute("class").replace("series ", ""),
      x: list(group.dataset.x).map(Number),
      y: list(group.dataset.y),
      spread: list(group.dataset.spread),
      points: list(group.querySelector(".line").getAttribute("points")).map((pair) => pair.split(",")),
    }));
    const epochs = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
    const cursor = make(axes, "line", "cursor");
    const marks = make(axes, "g");
    const tip = make(plot, "div", "tip");
    let shown = null;

    const hide = () => {
      shown = null;
      tip.hidden = true;
      cursor.setAttribute("visibility", "hidden");
      marks.replaceChildren();
    };

    const show = (epoch) => {
      const place = left + ((epoch - first) / (last - first)) * (right - left);
      marks.replaceChildren();
      tip.replaceChildren();
      make(tip, "b").textContent = `epoch ${epoch}`;
      for (const line of lines) {
        const at = line.x.indexOf(epoch);
        if (at < 0 || line.group.classList.contains("off")) continue;
        const row = make(tip, "div", line.kind);
        make(row, "i");
        const spread = line.spread[at] && line.spread[at] !== "-" ? ` ± ${short(line.spread[at], 3)}` : "";
        make(row, "span").textContent = `${line.name}: ${short(line.y[at], 5)}${spread}`;
        const mark = make(marks, "circle", `mark ${line.kind}`);
        mark.setAttribute("cx", line.points[at][0]);
        mark.setAttribute("cy", line.points[at][1]);
        mark.setAttribute("r", "4.5");
      }
      if (tip.childElementCount < 2) return hide();
      shown = epoch;
      for (const [name, value] of [["x1", place], ["x2", place], ["y1", top], ["y2", bottom]]) {
        cursor.setAttribute(name, value);
      }
      cursor.setAttribute("visibility", "visible");
      tip.hidden = false;
      // Beside the cursor, on the side with more room.
      const share = (100 * place) / axes.viewBox.baseVal.width;
      tip.style.left = share < 50 ? `calc(${share}% + 10px)` : "auto";
      tip.style.right = share < 50 ? "auto" : `calc(${100 - share}% + 10px)`;
    };

    const move = (event) => {
      const box = axes.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * axes.viewBox.baseVal.width;
      const epoch = first + ((x - left) / (right - left)) * (last - first);
      const distance = (one) => Math.abs(one - epoch);
      show(epochs.reduce((near, one) => (distance(one) < distance(near) ? one : near)));
    };

    axes.addEventListener("pointermove", move);
    axes.addEventListener("pointerdown", move);
    axes.addEventListener("pointerleave", hide);
    axes.addEventListener("blur", hide);
    axes.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") hide();
      if (!step) return;
      event.preventDefault();
      const at = shown === null ? (step > 0 ? -1 : epochs.length) : epochs.indexOf(shown);
      show(epochs[Math.min(Math.max(at + step, 0), epochs.length - 1)]);
    });

    const keys = [...figure.querySelectorAll(".key")];
    keys.forEach((key, number) => {
      key.addEventListener("click", () => {
        const off = lines[number].group.classList.toggle("off");
        key.setAttribute("aria-pressed", String(!off));
        hide();
      });
    });
    // The numbers of dots come with the pointer now.
    for (const title of axes.querySelectorAll("title")) title.remove();
    figure.classList.add("live");
    hide();
  }
})();
