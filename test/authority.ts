// A certificate authority for one test run: stories receive webhooks over real, verified HTTPS on this machine.

import { webcrypto } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import "reflect-metadata";
import * as x509 from "@peculiar/x509";

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;
const DAY_MS = 86_400_000;

/** Writes `ca.pem`, `cert.pem` and `key.pem` (for localhost and the loopback addresses) into a folder. */
export async function writeAuthority(folder: string): Promise<void> {
  x509.cryptoProvider.set(webcrypto as unknown as Crypto);
  const validity = { notBefore: new Date(Date.now() - DAY_MS), notAfter: new Date(Date.now() + 30 * DAY_MS) };
  const authorityKeys = await webcrypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
  const authority = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: "01",
    name: "CN=Cauri test authority",
    ...validity,
    signingAlgorithm: ALGORITHM,
    keys: authorityKeys as unknown as { privateKey: CryptoKey; publicKey: CryptoKey },
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
    ],
  });
  const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: "02",
    subject: "CN=localhost",
    issuer: authority.subject,
    ...validity,
    signingAlgorithm: ALGORITHM,
    publicKey: keys.publicKey as unknown as CryptoKey,
    signingKey: authorityKeys.privateKey as unknown as CryptoKey,
    extensions: [
      new x509.SubjectAlternativeNameExtension([
        { type: "dns", value: "localhost" },
        { type: "ip", value: "127.0.0.1" },
        { type: "ip", value: "::1" },
        // For a test in which all other loopback addresses are forbidden.
        { type: "ip", value: "127.0.0.2" },
      ]),
    ],
  });
  const pkcs8 = await webcrypto.subtle.exportKey("pkcs8", keys.privateKey);
  writeFileSync(join(folder, "ca.pem"), authority.toString("pem"));
  writeFileSync(join(folder, "cert.pem"), certificate.toString("pem"));
  writeFileSync(join(folder, "key.pem"), x509.PemConverter.encode(pkcs8, "PRIVATE KEY"), { mode: 0o600 });
}

/** What an HTTPS server of this run serves with. */
export function serverIdentity(folder: string): { cert: Buffer; key: Buffer } {
  return { cert: readFileSync(join(folder, "cert.pem")), key: readFileSync(join(folder, "key.pem")) };
}
