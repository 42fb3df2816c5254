// Where money is sent to, pure: what is accepted, what is kept, what the rest of the house may see of it.

import { maskAccountNumber, maskIban, maskName, maskPhone } from "@cauri/money/mask";
import { type Refusal, refuseField } from "@cauri/money/refusal";
import { isName, isPhoneOf, NAME_LONGEST } from "./payer.ts";

export type Destination =
  | { readonly type: "mobile_wallet"; readonly phone: string; readonly name?: string }
  | { readonly type: "bank_account"; readonly iban: string; readonly name?: string }
  | {
      readonly type: "bank_account";
      readonly account_number: string;
      readonly bank_code: string;
      readonly name?: string;
    };

/** As the wire has it: a detail that wasn't given is undefined. */
type Given = {
  readonly type: string;
  readonly phone: string | undefined;
  readonly iban: string | undefined;
  readonly accountNumber: string | undefined;
  readonly bankCode: string | undefined;
  readonly name: string | undefined;
};

export type MaskedDestination = {
  readonly type: string;
  readonly phone?: string;
  readonly iban?: string;
  readonly accountNumber?: string;
  readonly bankCode?: string;
  readonly name?: string;
};

/**
 * Lengths of the IBANs in use in the region. The countries of the instant scheme share one form of 28 characters; Guinea-
 * Bissau's of 25 is the registry's. A country that isn't here has none: its banks are named by code and account number.
 */
const IBAN_LENGTHS: { readonly [country: string]: readonly number[] } = {
  BJ: [28],
  BF: [28],
  CI: [28],
  GW: [25, 28],
  ML: [28],
  NE: [28],
  SN: [28],
  TG: [28],
  CM: [27],
  CF: [27],
  TD: [27],
  CG: [27],
  GA: [27],
  GQ: [27],
  MR: [27],
};
/** The countries of the UEMOA give each bank a code of five characters, most of which begin with the country. */
const UEMOA: readonly string[] = ["BJ", "BF", "CI", "GW", "ML", "NE", "SN", "TG"];
const UEMOA_BANK = /^[A-Z0-9]{5}$/;
const NATIONAL_BANK = /^([A-Z]{2})\d{3}$/;
const BANK = /^[A-Z0-9]{2,11}$/;
const ACCOUNT_NUMBER = /^[A-Z0-9]{5,34}$/;
const IBAN = /^([A-Z]{2})\d{2}[A-Z0-9]+$/;

/** The destination as given, checked against the country of the platform; `path` leads the refusal's field. */
export function checkDestination(given: Given, country: string, path: string): Destination | Refusal {
  const { name } = given;
  const wrong_name = name !== undefined && !isName(name);
  const refused_name = () => refuseField(`${path}.name`, `must have 1 to ${NAME_LONGEST} characters`);
  const place = given.type === "mobile_wallet" ? wallet(given, country, path) : bank(given, country, path);
  if ("refused" in place) return place;
  if (wrong_name) return refused_name();
  return name === undefined ? place : { ...place, name };
}

function wallet({ phone }: Given, country: string, path: string): Destination | Refusal {
  if (phone === undefined) return refuseField(`${path}.phone`, "is required for a mobile_wallet");
  if (!isPhoneOf(phone, country)) return refuseField(`${path}.phone`, `not a valid phone number for ${country}`);
  return { type: "mobile_wallet", phone };
}

function bank(given: Given, country: string, path: string): Destination | Refusal {
  if (given.type !== "bank_account") return refuseField(`${path}.type`, "must be mobile_wallet or bank_account");
  const { iban, accountNumber, bankCode } = given;
  if (iban !== undefined) {
    if (accountNumber !== undefined || bankCode !== undefined) {
      return refuseField(`${path}.iban`, "give either an IBAN or an account number with its bank code");
    }
    const compact = compactOf(iban);
    return isIbanOf(compact, country)
      ? { type: "bank_account", iban: compact }
      : refuseField(`${path}.iban`, `not a valid IBAN of ${country}`);
  }
  if (accountNumber === undefined) {
    return refuseField(`${path}.iban`, "is required for a bank_account, or account_number with bank_code");
  }
  if (bankCode === undefined) return refuseField(`${path}.bank_code`, "is required beside an account_number");
  const account_number = compactOf(accountNumber);
  const bank_code = compactOf(bankCode);
  if (!ACCOUNT_NUMBER.test(account_number)) {
    return refuseField(`${path}.account_number`, "must have 5 to 34 letters and digits");
  }
  if (!isBankOf(bank_code, country)) return refuseField(`${path}.bank_code`, `not a bank code of ${country}`);
  return { type: "bank_account", account_number, bank_code };
}

/** ISO 13616: the country's length, and the remainder of the rearranged digits by 97 is 1. */
function isIbanOf(iban: string, country: string): boolean {
  if (IBAN.exec(iban)?.[1] !== country || !IBAN_LENGTHS[country]?.includes(iban.length)) return false;
  const digits = (iban.slice(4) + iban.slice(0, 4)).replace(/[A-Z]/g, (letter) => String(letter.charCodeAt(0) - 55));
  return BigInt(digits) % 97n === 1n;
}

function isBankOf(code: string, country: string): boolean {
  if (!UEMOA.includes(country)) return BANK.test(code);
  const national = NATIONAL_BANK.exec(code)?.[1];
  return UEMOA_BANK.test(code) && (national === undefined || national === country);
}

/** As people group them: spaces and hyphens say nothing. */
function compactOf(text: string): string {
  return text.replace(/[\s-]/g, "").toUpperCase();
}

/** What may be shown of a destination anywhere. */
export function maskDestination(destination: Destination): MaskedDestination {
  const { type, name } = destination;
  const named = name === undefined ? {} : { name: maskName(name) };
  if ("phone" in destination) return { type, phone: maskPhone(destination.phone), ...named };
  if ("iban" in destination) return { type, iban: maskIban(destination.iban), ...named };
  const accountNumber = maskAccountNumber(destination.account_number);
  return { type, accountNumber, bankCode: destination.bank_code, ...named };
}

/** One text per destination, its keys in one order, so that two can be compared and one can be sealed. */
export function writeDestination(destination: Destination): Buffer {
  const ordered = Object.fromEntries(Object.entries(destination).sort(([a], [b]) => (a < b ? -1 : 1)));
  return Buffer.from(JSON.stringify(ordered), "utf8");
}

export function readDestination(plain: Buffer): Destination {
  return JSON.parse(plain.toString("utf8")) as Destination;
}
