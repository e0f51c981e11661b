/* Filters of the list of incidents; without scripts, the page shows all of them. */
"use strict";

(() => {
  const form = document.querySelector(".filters");
  const rows = [...document.querySelectorAll(".incidents tbody tr")];
  const { cause, server, text, shown } = form.elements;

  function filter() {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const content = row.textContent.toLowerCase();
      const fits = (!cause.value || row.dataset.cause === cause.value)
        && (!server.value || row.dataset.servers.split("\n").includes(server.value))
        && words.every((word) => content.includes(word));
      row.hidden = !fits;
      count += fits;
    }
    shown.value = count === rows.length ? "" : `${count} of ${rows.length} shown`;
  }

  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  filter();
})();
