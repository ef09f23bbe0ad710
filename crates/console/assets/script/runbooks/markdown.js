// --- Elements for the Markdown of the runbooks ---

/** The name of a heading in links, as renderers of Markdown make it. */
function anchorOf(heading) {
  return heading
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(" ", "-");
}

/** Elements for the Markdown that the handbook is written in. */
function markdown(text) {
  const lines = text.split("\n");
  const out = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const heading = /^(#+) (.*)$/.exec(line);
    if (heading) {
      const level = Math.min(heading[1].length, 4);
      out.push(h(`h${level}`, { id: anchorOf(heading[2]), tabindex: "-1" }, inline(heading[2])));
      at += 1;
    } else if (/^\s*```/.test(line)) {
      const [block, next] = codeBlock(lines, at);
      out.push(block);
      at = next;
    } else if (line.startsWith("|")) {
      const end = endOf(lines, at, (row) => row.startsWith("|"));
      out.push(tableOf(lines.slice(at, end)));
      at = end;
    } else if (/^(?:- |\d+\. )/.test(line)) {
      const end = endOf(
        lines,
        at,
        (row, index) =>
          /^(?:- |\d+\. |\s+\S)/.test(row) || (row === "" && /^\s+\S/.test(lines[index + 1] ?? "")),
      );
      out.push(listOf(lines.slice(at, end)));
      at = end;
    } else if (line.trim() === "") at += 1;
    else {
      const end = endOf(lines, at, (row) => row.trim() !== "" && !/^\s*(?:```|\||#+ |- )/.test(row));
      out.push(h("p", {}, inline(lines.slice(at, Math.max(end, at + 1)).join(" "))));
      at = Math.max(end, at + 1);
    }
  }
  return out;
}

/** The first line from `at` on that does not belong to a block. */
function endOf(lines, at, belongs) {
  let end = at;
  while (end < lines.length && belongs(lines[end], end)) end += 1;
  return end;
}

/** A block of code, and the line after it. */
function codeBlock(lines, at) {
  const indent = /^\s*/.exec(lines[at])[0].length;
  const end = lines.findIndex((line, index) => index > at && /^\s*```\s*$/.test(line));
  const code = lines.slice(at + 1, end).map((line) => line.slice(Math.min(indent, line.length)));
  return [h("div", { class: "code" }, h("pre", { tabindex: "0" }, code.join("\n")), copyButton(code.join("\n"))), end + 1];
}

/** A table. */
function tableOf(rows) {
  const cells = rows.map((row) =>
    row
      .slice(1, -1)
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim()),
  );
  const shown = table(
    cells[0].join(", "),
    cells[0],
    cells.slice(2).map((row) => row.map((cell) => inline(cell))),
  );
  // Cells of text are long: on a phone three columns are as many as five of figures.
  if (cells[0].length > 2) shown.querySelector("table").className = "wide";
  return shown;
}

/** A list, whose items may hold blocks. */
function listOf(lines) {
  const isOrdered = /^\d/.test(lines[0]);
  const items = [];
  for (const line of lines) {
    const begin = /^(?:- |\d+\. )/.exec(line);
    if (begin) items.push([line.slice(begin[0].length)]);
    else items.at(-1).push(line.slice(Math.min(isOrdered ? 3 : 2, /^\s*/.exec(line)[0].length)));
  }
  return h(
    isOrdered ? "ol" : "ul",
    {},
    items.map((item) => h("li", {}, markdown(item.join("\n")))),
  );
}

/** Text with code, links and emphasis. */
function inline(text) {
  const parts = text.split(/(`[^`]+`|\[(?:[^\]]|`[^`]*`)+\]\([^)]*\)|\*\*[^*]+\*\*)/);
  return parts.map((part, index) => {
    if (index % 2 === 0) return part;
    if (part[0] === "`") return h("code", {}, part.slice(1, -1).replaceAll("\\|", "|"));
    if (part[0] === "*") return h("strong", {}, inline(part.slice(2, -2)));
    const [, words, target] = /^\[(.*)\]\((.*)\)$/.exec(part);
    // A page without a heading of it is named by its title.
    const [, page, heading] = /([\w-]*)(?:\.md)?(?:#(.*))?$/.exec(target);
    return target.includes("reference/")
      ? h("span", {}, inline(words))
      : h("a", { href: hrefOf("runbooks", { at: heading ?? page }) }, inline(words));
  });
}

/** A button that copies a text, and says so. */
function copyButton(text) {
  const button = h("button", { type: "button", class: "copy", "aria-live": "polite" }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = (await copied(text)) ? "Copied" : "Select it to copy";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  return button;
}

/** Copies a text; gives whether that was possible. Without TLS a browser has only the old way. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h("textarea", { class: "hidden", "aria-hidden": "true" });
    const focused = document.activeElement;
    area.value = text;
    document.body.append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    focused?.focus();
    return isDone;
  }
}
