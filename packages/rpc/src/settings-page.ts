// Writes docs/settings.md anew: run it after a change of the settings table.

import { writeFile } from "node:fs/promises";
import { settingsPage } from "./settings.ts";

await writeFile(new URL("../../../docs/settings.md", import.meta.url), settingsPage());
