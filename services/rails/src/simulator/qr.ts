// The payload of a payment QR: EMVCo merchant-presented mode in the profile of the region's instant scheme (BCEAO),
// which leaves out tag 01 and tells a one-time code by the channel in 62-11.

/** The scheme's globally unique identifier, first in its merchant account template. */
const SCHEME = "int.bceao.pi";
/** Channel of a code made for one payment. */
const ONE_TIME_CHANNEL = "400";
const LONGEST_VALUE = 99;
/** ISO 4217 numeric codes of the assets that can be collected. */
const NUMERIC_CURRENCIES: { readonly [code: string]: string } = { XOF: "952", XAF: "950", GHS: "936", NGN: "566" };

export type PaymentQr = {
  /** Alias of the receiver: 36 characters. */
  readonly alias: string;
  /** ISO 4217. */
  readonly currency: string;
  /** Decimal amount, digits and one point at most. */
  readonly amount: string;
  /** ISO 3166-1. */
  readonly country: string;
  /** 25 characters at most; the payer's app copies it into the payment. */
  readonly reference: string;
};

export function paymentQr(qr: PaymentQr): string {
  const currency = NUMERIC_CURRENCIES[qr.currency];
  if (currency === undefined) throw new Error(`no numeric code for the currency ${qr.currency}`);
  const payload = [
    field("00", "01"),
    field("36", field("00", SCHEME) + field("01", qr.alias)),
    field("52", "0000"),
    field("53", currency),
    field("54", qr.amount),
    field("58", qr.country),
    field("59", "X"),
    field("60", "X"),
    field("62", field("05", qr.reference) + field("11", ONE_TIME_CHANNEL)),
    // The checksum covers its own tag and length.
    "6304",
  ].join("");
  return payload + crc16(payload);
}

function field(tag: string, value: string): string {
  if (value.length === 0 || value.length > LONGEST_VALUE) throw new Error(`QR field ${tag}: 1 to 99 characters`);
  return tag + String(value.length).padStart(2, "0") + value;
}

/** CRC-16/CCITT-FALSE: polynomial 0x1021, start 0xFFFF, nothing reflected; `123456789` gives 29B1. */
export function crc16(text: string): string {
  let crc = 0xffff;
  for (const byte of Buffer.from(text, "utf8")) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021;
    crc &= 0xffff;
  }
  return crc.toString(16).toUpperCase().padStart(4, "0");
}
