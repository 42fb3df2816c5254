// Masks of payer details: what a read view, an event or a log may show of them.
// The number of stars is constant, so that a mask doesn't tell the length of what it hides.

const STARS = "*****";
const NAME_STARS = "***";

/** ITU country calling codes of one digit (1, 7) and of two; all others have three. The plan of E.164 is stable. */
const ONE_DIGIT_CODES = /^[17]/;
const TWO_DIGIT_CODES = /^(?:2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58])/;

/** Fewer national digits than this and "first two, last two" would show most of the number: then only the country stays. */
const SHORTEST_SHOWN = 6;

/** `+22507*****07`: the country code, two digits, five stars, the last two digits. */
export function maskPhone(e164: string, country_calling_code_length?: number): string {
  const digits = e164.replace(/\D/g, "");
  const code_length = country_calling_code_length ?? callingCodeLength(digits);
  const national = digits.slice(code_length);
  const country = `+${digits.slice(0, code_length)}`;
  if (national.length < SHORTEST_SHOWN) return country + STARS;
  return country + national.slice(0, 2) + STARS + national.slice(-2);
}

/** `A*** K***`: the first character of each word. */
export function maskName(name: string): string {
  const words = name.trim().split(/\s+/u);
  return words.map((word) => (word === "" ? "" : firstCharacter(word) + NAME_STARS)).join(" ");
}

/** `a***@e***.com`: the first character of the local part and of the domain, and the last label. */
export function maskEmail(email: string): string {
  const at = email.lastIndexOf("@");
  if (at < 0) return firstCharacter(email) + NAME_STARS;
  const domain = email.slice(at + 1);
  const dot = domain.lastIndexOf(".");
  const ending = dot < 0 ? "" : domain.slice(dot);
  return `${firstCharacter(email.slice(0, at))}${NAME_STARS}@${firstCharacter(domain)}${NAME_STARS}${ending}`;
}

/** `CI*****1234`: the country and the last four characters. */
export function maskIban(iban: string): string {
  const compact = iban.replace(/\s/g, "").toUpperCase();
  return compact.slice(0, 2) + STARS + compact.slice(2).slice(-4);
}

/** `*****1234`: the last four characters of a bank account number, nothing of one that has fewer than eight. */
export function maskAccountNumber(account_number: string): string {
  const compact = account_number.replace(/\s/g, "");
  return compact.length < 8 ? STARS : STARS + compact.slice(-4);
}

function callingCodeLength(digits: string): number {
  if (ONE_DIGIT_CODES.test(digits)) return 1;
  return TWO_DIGIT_CODES.test(digits) ? 2 : 3;
}

/** The first code point, never half of a surrogate pair. */
function firstCharacter(text: string): string {
  const point = text.codePointAt(0);
  return point === undefined ? "" : String.fromCodePoint(point);
}
