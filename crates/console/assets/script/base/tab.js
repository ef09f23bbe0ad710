// --- What a tab keeps over a reload ---

/**
 * What the tab keeps under a name; null if that is nothing, or if the browser keeps nothing. It
 * goes with the tab.
 */
function keptInTab(name) {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return null;
  }
}

/** Has the tab keep a text under a name, if the browser lets it. Null ends that. */
function keepInTab(name, text) {
  try {
    if (text === null) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, text);
  } catch {
    // Without it a reload begins anew.
  }
}
