/** How many columns of a terminal a text takes. Pure. */

/** Marks that stand on the character before them, and the later parts of a Hangul syllable. */
const NOTHING = /[\p{Mn}\p{Me}\u1160-\u11ff]/u;
/** What Unicode calls wide, and pictures; a flag is two letters of one column each. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18aff}\u{1b000}-\u{1b2ff}\u{1f200}-\u{1f2ff}\u{20000}-\u{3fffd}]|(?!\p{RI})\p{Emoji_Presentation}/u;
const ASCII = /^[\x20-\x7e]*$/;

/**
 * The columns of `text`, which has been through the display rules: no newline, no control character.
 * Each character counts by itself, as in most terminals.
 */
export function columnsOf(text: string): number {
  if (ASCII.test(text)) return text.length;
  let width = 0;
  for (const character of text) {
    if (!NOTHING.test(character)) width += WIDE.test(character) ? 2 : 1;
  }
  return width;
}
