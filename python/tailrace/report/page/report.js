/* What a reader does with the page: theme, jumping, keyboard, linking sentences with their intervals. */
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("numbers").textContent);
  const store = Charts.decode(data);
  const root = document.documentElement;

  /* ---- theme ------------------------------------------------------------------------------------------------- */

  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const toggle = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  function theme(name, keep) {
    if (name) root.dataset.theme = name; else delete root.dataset.theme;
    toggle.setAttribute("aria-pressed", String(isDark()));
    if (keep) try { localStorage.setItem("tailrace-theme", name); } catch { /* a file may have no storage */ }
    Charts.repaint();
  }
  let stored = null;
  try { stored = localStorage.getItem("tailrace-theme"); } catch { /* likewise */ }
  theme(stored === "dark" || stored === "light" ? stored : null, false);
  toggle.addEventListener("click", () => theme(isDark() ? "light" : "dark", true));
  prefersDark.addEventListener("change", () => theme(root.dataset.theme, false));

  /* ---- one group of charts ----------------------------------------------------------------------------------- */

  const begin = data.begin_ms;
  const clock = (s) => new Date(begin + s * 1000).toISOString().slice(11, 23);
  const seconds = (s) => `${s.toFixed(2)} s`;

  function follow(group) {
    const { element } = group;
    const bars = element.querySelectorAll(".lane [data-from]");
    const now = element.querySelector(".now");
    group.moved.push(() => {
      const length = group.to - group.from;
      const percent = (s) => Math.min(100, Math.max(0, 100 * (s - group.from) / length));
      for (const bar of bars) {
        const [a, b] = [percent(+bar.dataset.from), percent(+bar.dataset.to)];
        bar.style.left = `${a}%`;
        bar.style.width = `${b - a}%`;
        bar.classList.toggle("outside", a >= 100 || b <= 0);
      }
      now.textContent = group.cursor === null
        ? `${seconds(group.from)} to ${seconds(group.to)}`
        : begin === 0 ? seconds(group.cursor) : `${seconds(group.cursor)} · ${clock(group.cursor)} UTC`;  /* 0: simulated */
    });
  }

  function buttons(group) {
    const acts = {
      in: () => Charts.zoom(group, 0.5), out: () => Charts.zoom(group, 2), reset: () => Charts.reset(group),
      left: () => Charts.pan(group, -0.25), right: () => Charts.pan(group, 0.25),
    };
    group.element.querySelectorAll("[data-act]").forEach((button) =>
      button.addEventListener("click", () => { Charts.draw(group); acts[button.dataset.act](); }));
  }

  /* Arrows move the cursor by a window, with shift by ten; alt moves the range; + - zoom; 0 and Escape reset. */
  function keyboard(group) {
    const step = data.window;
    const at = () => group.cursor ?? (group.from + group.to) / 2;
    const keys = {
      ArrowLeft: (e) => (e.altKey ? Charts.pan(group, -0.25) : Charts.point(group, at() - step * (e.shiftKey ? 10 : 1))),
      ArrowRight: (e) => (e.altKey ? Charts.pan(group, 0.25) : Charts.point(group, at() + step * (e.shiftKey ? 10 : 1))),
      Home: () => Charts.point(group, group.from), End: () => Charts.point(group, group.to),
      "+": () => Charts.zoom(group, 0.5), "=": () => Charts.zoom(group, 0.5), "-": () => Charts.zoom(group, 2),
      0: () => Charts.reset(group), Escape: () => Charts.reset(group),
    };
    group.element.addEventListener("keydown", (event) => {
      const chart = event.target.closest(".canvas");
      if (!chart || event.ctrlKey || event.metaKey || !keys[event.key]) return;
      event.preventDefault();
      keys[event.key](event);
      speak(group, chart);
    });
  }

  let speaking = 0;
  function speak(group, box) {
    clearTimeout(speaking);
    speaking = setTimeout(() => {
      const words = [...box.closest(".chart").querySelectorAll(".key")].map((key) => key.textContent.trim());
      document.getElementById("spoken").textContent = `${group.element.querySelector(".now").textContent}. ${words.join(", ")}`;
    }, 250);
  }

  /* Pointing at a finding, by mouse or keyboard, lights its interval in every chart; a click keeps it. */
  function link(group) {
    let kept = null;
    const parts = group.element.querySelectorAll("[data-step]");
    const show = (step) => {
      Charts.light(group, step);
      parts.forEach((part) => part.classList.toggle("lit", step !== null && +part.dataset.step === step));
    };
    parts.forEach((part) => {
      const step = +part.dataset.step;
      part.addEventListener("pointerenter", () => show(step));
      part.addEventListener("pointerleave", () => show(kept));
      part.addEventListener("focusin", () => show(step));
      part.addEventListener("focusout", () => show(kept));
    });
    group.element.querySelectorAll("button[data-step]").forEach((button) => button.addEventListener("click", () => {
      kept = kept === +button.dataset.step ? null : +button.dataset.step;
      group.element.querySelectorAll("button[data-step]").forEach((b) =>
        b.setAttribute("aria-pressed", String(kept === +b.dataset.step)));
      show(kept ?? +button.dataset.step);
    }));
  }

  function wheel(group) {
    group.element.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey || !event.target.closest(".canvas")) return;
      event.preventDefault();
      Charts.zoom(group, event.deltaY > 0 ? 1.25 : 0.8);
    }, { passive: false });
  }

  const elements = [...document.querySelectorAll("[data-group]")];
  const groups = new Map(elements.map((element) => {
    const group = Charts.make(element.dataset.group, data, store, element);
    [follow, buttons, keyboard, link, wheel].forEach((wire) => wire(group));
    return [element, group];
  }));

  /* ---- drawing only what is looked at ------------------------------------------------------------------------ */

  const seen = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (entry.isIntersecting) Charts.draw(groups.get(entry.target));
  }), { rootMargin: "400px" });
  elements.forEach((element) => seen.observe(element));

  new ResizeObserver(() => groups.forEach((group) => Charts.resize(group))).observe(document.querySelector("main"));
  document.querySelectorAll("details.episode").forEach((details) => details.addEventListener("toggle", () => {
    const group = groups.get(details.querySelector("[data-group]"));
    if (details.open && group) Charts.resize(group);
  }));

  let before = null;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme || "";
    root.dataset.theme = "light";
    groups.forEach((group, element) => {
      if (element.closest("details:not([open])")) return;
      Charts.draw(group);
      Charts.resize(group, true);
    });
    Charts.repaint();
  });
  addEventListener("afterprint", () => {
    theme(before || null, false);
    groups.forEach((group) => Charts.resize(group));
  });

  /* ---- jumping ----------------------------------------------------------------------------------------------- */

  function open(hash) {
    const target = hash && document.getElementById(hash.slice(1));
    const details = target && target.closest("details");
    if (details) details.open = true;
    if (target) target.scrollIntoView();
  }
  document.querySelectorAll("a[href^='#episode-']").forEach((a) => a.addEventListener("click", () => open(a.hash)));
  addEventListener("hashchange", () => open(location.hash));
  if (location.hash) open(location.hash);

  const all = document.getElementById("all-episodes");
  if (all) all.addEventListener("click", () => {
    const list = [...document.querySelectorAll("details.episode")];
    const closing = list.every((d) => d.open);
    list.forEach((d) => { d.open = !closing; });
    all.textContent = closing ? "Open all" : "Close all";
  });

  root.dataset.ready = "true";
})();
