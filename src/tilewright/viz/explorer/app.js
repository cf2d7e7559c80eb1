// Wiring: tabs, fields, the state in the address.

function showTab(name) {
  for (const tab of document.querySelectorAll(".tab")) tab.hidden = tab.id !== `tab-${name}`;
  for (const button of document.querySelectorAll("nav button")) {
    button.setAttribute("aria-pressed", String(button.dataset.tab === name));
  }
}

function start() {
  const state = new URLSearchParams(location.hash.slice(1));
  if (state.has("run")) {
    runVectors(state.get("run"));
    return;
  }
  for (const [name, { label }] of Object.entries(OPERATIONS)) {
    byId("op").append(element("option", { value: name }, label));
  }
  const given = FIELDS.some((id) => state.has(id));
  const plain = { op: "show", cells: "offset", bytes: "4" }; // what an address leaves out
  for (const id of FIELDS) {
    if (given) byId(id).value = state.get(id) ?? plain[id] ?? "";
    byId(id).addEventListener("input", () => {
      showLayouts();
      saveHash();
    });
  }
  for (const button of document.querySelectorAll("nav button")) {
    button.addEventListener("click", () => showTab(button.dataset.tab));
  }
  for (const box of [byId("offsets"), byId("banks")]) {
    box.addEventListener("mouseover", (event) => lightUp(box, event.target.dataset ? event.target.dataset.key : null));
  }
  byId("atompicture").addEventListener("mouseover", (event) => {
    if (byId("lane").value.trim() === "") lightUp(byId("atompicture"), event.target.dataset.key);
  });
  byId("atompicture").addEventListener("click", (event) => {
    if (event.target.dataset.key) {
      byId("lane").value = event.target.dataset.key.slice(1);
      showLane();
    }
  });
  byId("filter").value = state.get("atom") || byId("filter").value;
  byId("filter").addEventListener("input", listAtoms);
  byId("atom").addEventListener("input", showAtom);
  byId("lane").addEventListener("input", showLane);
  byId("lane").value = state.get("lane") || "";
  listAtoms();
  showLayouts();
  showTab(state.has("atom") ? "atoms" : "layouts");
}

start();
