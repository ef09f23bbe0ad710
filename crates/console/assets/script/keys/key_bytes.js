// --- Keys and values are bytes ---

const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The text of bytes, or null if they are not UTF-8. */
function textOf(data) {
  try {
    return strictUtf8.decode(data);
  } catch {
    return null;
  }
}

/** The bytes of a base64 text. */
function fromBase64(text) {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

/** Bytes as the value of a query parameter. */
function percent(data) {
  return Array.from(data, (byte) => {
    const char = String.fromCharCode(byte);
    return /[A-Za-z0-9._~-]/.test(char) ? char : `%${hex(byte)}`;
  }).join("");
}

/** The bytes that a query parameter names. */
function fromPercent(text) {
  return bytesOfParts(text.split(/(%[0-9A-Fa-f]{2})/), (escape) => parseInt(escape.slice(1), 16));
}

/** The bytes of a text whose odd parts are escapes of one byte each. */
function bytesOfParts(parts, byteOf) {
  return Uint8Array.from(
    parts.flatMap((part, index) =>
      index % 2 === 0 ? Array.from(new TextEncoder().encode(part)) : [byteOf(part)],
    ),
  );
}

/** A byte in two digits. */
function hex(byte) {
  return byte.toString(16).toUpperCase().padStart(2, "0");
}

/**
 * A key as people read and type it: bytes that are no visible text are `\xFF`, and a
 * backslash is doubled.
 */
function keyLabel(data) {
  const text = textOf(data);
  if (text === null) {
    return Array.from(data, (byte) =>
      byte > 0x20 && byte < 0x7f && byte !== 0x5c ? String.fromCharCode(byte) : `\\x${hex(byte)}`,
    ).join("");
  }
  return text
    .replaceAll("\\", "\\\\")
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]/gu, (char) =>
      Array.from(new TextEncoder().encode(char), (byte) => `\\x${hex(byte)}`).join(""),
    );
}

/** The bytes of a key that was typed as `keyLabel` writes it. */
function keyOfLabel(label) {
  const byteOf = (escape) => (escape === "\\\\" ? 0x5c : parseInt(escape.slice(2), 16));
  return bytesOfParts(label.split(/(\\x[0-9A-Fa-f]{2}|\\\\)/), byteOf);
}

/** The first key after all that begin with this prefix, or null if there is none. */
function afterPrefix(prefix) {
  let length = prefix.length;
  while (length > 0 && prefix[length - 1] === 0xff) length -= 1;
  if (length === 0) return null;
  const end = prefix.slice(0, length);
  end[length - 1] += 1;
  return end;
}

/** Bytes as lines of offset, sixteen bytes and their characters. */
function hexLines(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const row = Array.from(data.slice(at, at + 16));
    const left = row.slice(0, 8).map(hex).join(" ").padEnd(23);
    const right = row.slice(8).map(hex).join(" ").padEnd(23);
    const chars = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${left}  ${right}  ${chars}`);
  }
  return lines.join("\n");
}
