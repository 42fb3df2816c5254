// The raw details of a payer, pure: what is accepted, what is kept, what the rest of the house may see of them.

import { maskEmail, maskName, maskPhone } from "@cauri/money/mask";
import { type Refusal, refuseField } from "@cauri/money/refusal";
import { type CountryCode, isSupportedCountry, parsePhoneNumberFromString } from "libphonenumber-js/max";

export type Payer = { readonly phone?: string; readonly name?: string; readonly email?: string };

/** As the wire has them: a detail that wasn't given is undefined. */
type Given = { readonly [D in keyof Payer]: string | undefined };

const E164 = /^\+[1-9]\d{6,14}$/;
export const NAME_LONGEST = 140;
const EMAIL_LONGEST = 254;
/** One @, a local part, a domain with a dot, no space: what a typing error breaks. The rest only a letter can tell. */
const EMAIL = /^[^\s@]{1,64}@[^\s@.]+(?:\.[^\s@.]+)+$/u;

/** The payer as given, checked against the country of the platform; `path` leads the refusal's field. */
export function checkPayer(payer: Given, country: string, path: string): Payer | Refusal {
  const { phone, name, email } = payer;
  if (phone !== undefined && !isPhoneOf(phone, country)) {
    return refuseField(`${path}.phone`, `not a valid phone number for ${country}`);
  }
  if (name !== undefined && !isName(name)) {
    return refuseField(`${path}.name`, `must have 1 to ${NAME_LONGEST} characters`);
  }
  if (email !== undefined && !(email.length <= EMAIL_LONGEST && EMAIL.test(email))) {
    return refuseField(`${path}.email`, "not a valid e-mail address");
  }
  return {
    ...(phone === undefined ? {} : { phone }),
    ...(name === undefined ? {} : { name }),
    ...(email === undefined ? {} : { email }),
  };
}

export function isName(name: string): boolean {
  return name.trim() !== "" && [...name].length <= NAME_LONGEST;
}

/** E.164 only: a national form means another number in another country. */
export function isPhoneOf(phone: string, country: string): boolean {
  if (!E164.test(phone) || !isSupportedCountry(country)) return false;
  const parsed = parsePhoneNumberFromString(phone);
  return parsed?.isValid() === true && parsed.country === (country satisfies CountryCode) && parsed.number === phone;
}

/** What may be shown of a payer anywhere. */
export function maskPayer(payer: Payer): Payer {
  return {
    ...(payer.phone === undefined ? {} : { phone: maskPhone(payer.phone) }),
    ...(payer.name === undefined ? {} : { name: maskName(payer.name) }),
    ...(payer.email === undefined ? {} : { email: maskEmail(payer.email) }),
  };
}

export function isEmpty(payer: Payer): boolean {
  return payer.phone === undefined && payer.name === undefined && payer.email === undefined;
}

/** One text per payer, so that two can be compared and one can be sealed. */
export function writePayer(payer: Payer): Buffer {
  return Buffer.from(JSON.stringify([payer.phone ?? null, payer.name ?? null, payer.email ?? null]), "utf8");
}

export function readPayer(plain: Buffer): Payer {
  const [phone, name, email] = JSON.parse(plain.toString("utf8")) as (string | null)[];
  return {
    ...(typeof phone === "string" ? { phone } : {}),
    ...(typeof name === "string" ? { name } : {}),
    ...(typeof email === "string" ? { email } : {}),
  };
}
