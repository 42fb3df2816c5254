// Writes gateway/openapi.json anew. Run by `npm run generate`; a test refuses a document that is out of date.

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { loadImage } from "./image.ts";
import { openApiDocument } from "./openapi.ts";

export const OPENAPI_FILE = fileURLToPath(new URL("../openapi.json", import.meta.url));

/** The text of the file as it should be. */
export function openApiText(): string {
  return `${JSON.stringify(openApiDocument(loadImage()), null, 2)}\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const text = openApiText();
  let before = "";
  try {
    before = readFileSync(OPENAPI_FILE, "utf8");
  } catch {
    console.log("gateway/openapi.json is made for the first time");
  }
  if (text !== before) writeFileSync(OPENAPI_FILE, text);
}
