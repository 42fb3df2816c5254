// Keeps the house as the style asks for: which workspace may import which, what no file may hold, and that nothing lies
// about unused. The lengths of functions are Biome's matter (biome.json).

import assert from "node:assert/strict";
import { test } from "node:test";
import { SETTINGS } from "@cauri/rpc/settings-table";
import {
  codeFiles,
  importsOf,
  isTest,
  read,
  repositoryFiles,
  resolveImport,
  type Source,
  type Workspace,
  workspaces,
} from "./tidy-sources.ts";

const LONGEST_FILE = 400;
/** A longer file says so, and why, in its header. */
const LONG_ON_PURPOSE = "longer than other files";
const HEADER_LINES = 4;

/** Which packages a workspace may use; whatever is not listed here is a leaf that nobody imports. */
const PACKAGES = ["@cauri/money", "@cauri/trace", "@cauri/proto", "@cauri/store", "@cauri/rpc", "@cauri/events"];
const ARROWS: Readonly<Record<string, readonly string[]>> = {
  "packages/money": [],
  "packages/proto": [],
  "packages/webhook-verifier": [],
  "packages/trace": ["@cauri/money"],
  "packages/store": ["@cauri/money", "@cauri/trace"],
  "packages/rpc": ["@cauri/money", "@cauri/trace", "@cauri/proto", "@cauri/store"],
  "packages/events": ["@cauri/money", "@cauri/trace", "@cauri/proto", "@cauri/store", "@cauri/rpc"],
};
/** They are called and call nobody: a call back up would make a cycle of waiting. */
const CALL_NOBODY = ["services/ledger/", "services/rails/"];

type Ban = {
  readonly pattern: RegExp;
  readonly where: RegExp;
  readonly except?: RegExp;
  /** What to write in its place. */
  readonly instead: string;
};

const SOURCES = /\.(ts|mjs|js|sql|proto)$/;
const BANS: readonly Ban[] = [
  {
    pattern: /\bDate\.now\(\)|\bnew Date\(\)/,
    where: /^(services\/[^/]+|packages\/(money|store))\/src\/.*\.ts$/,
    except: /^packages\/money\/src\/clock\.ts$|\.test\.ts$/,
    instead:
      "take the time as an argument: `now(account, mode)` of @cauri/store/clock, or a Clock of @cauri/money/clock",
  },
  {
    pattern: /\boffset\s+(\$|\d|\{)/i,
    where: /^(services|gateway)\/.*\.(ts|sql)$/,
    instead: "page by number with `listPage` of @cauri/store/lists: OFFSET over a table reads all it skips",
  },
  {
    pattern: /\bcount\(\*\)/i,
    where: /^(services|gateway)\/.*\.(ts|sql)$/,
    except: /\.test\.ts$/,
    instead: "`listPage` of @cauri/store/lists keeps exact totals without counting",
  },
  {
    pattern: /\bprocess\.env\b/,
    where: /^(services|gateway|packages)\/.*\.ts$/,
    except: /\.test\.ts$|^packages\/rpc\/src\/process\.ts$|\/testing\.ts$/,
    instead: "the settings that `runService` hands over, by a line in packages/rpc/src/settings-table.ts",
  },
  {
    pattern: /\bconsole\.(log|info|debug|warn|error)\(/,
    where: /^(services|gateway|packages)\/.*\.ts$/,
    except: /\.test\.ts$|\/(settings-page|openapi-write)\.ts$/,
    instead: "the process's own log, which is JSON and hides secrets",
  },
  {
    pattern: /\b(T[O]DO|FI[X]ME|XX[X])\b/,
    where: SOURCES,
    instead: "do it now, or file an issue",
  },
  {
    pattern: /\bMath\.random\(\)/,
    where: /^(services|gateway|packages\/money)\/.*\.ts$/,
    except: /\.test\.ts$/,
    instead: "node:crypto for what must not be guessed; an argument for what a test must repeat",
  },
];

/** Names under which anything could be put, and so in time everything is. */
const SHAPELESS = /^(utils?|types|common|helpers?|misc|constants|shared|index)\.(ts|mjs)$/;

/** Paths and hosts of one machine or workplace, spelt so that this file does not hold them itself. */
const MACHINE_PATHS = [/\/wor[k]\//, /\/roo[t]\//, /\/hom[e]\/[a-z]/];

const files = repositoryFiles();
const code = codeFiles(files);
const spaces = workspaces(files);

function complain(problems: readonly string[]): void {
  assert.equal(problems.length, 0, `\n  ${problems.join("\n  ")}`);
}

function workspaceOf(path: string): Workspace | undefined {
  return spaces.find(({ folder }) => path.startsWith(`${folder}/`));
}

test("arrows: a workspace imports only what may lie below it", () => {
  complain(
    spaces.flatMap(({ folder, dependencies }) => {
      const allowed = ARROWS[folder] ?? PACKAGES;
      const wrong = dependencies.filter((name) => name.startsWith("@cauri/") && !allowed.includes(name));
      return wrong.map((name) => `${folder}/package.json depends on ${name}; allowed: ${allowed.join(", ") || "none"}`);
    }),
  );
});

test("arrows: an import is declared by its own workspace and stays inside it", () => {
  const shared = Object.keys((JSON.parse(read("package.json").text) as { devDependencies: object }).devDependencies);
  complain(code.flatMap((source) => undeclaredImports(source, shared)));
});

function undeclaredImports(source: Source, shared: readonly string[]): string[] {
  const workspace = workspaceOf(source.path);
  if (workspace === undefined) return [];
  return importsOf(source).flatMap((specifier) => {
    if (specifier.startsWith("node:")) return [];
    if (specifier.startsWith(".")) {
      const target = resolveImport(source.path, specifier) ?? "";
      const support = isTest(source.path) && target.startsWith("test/");
      return support || target.startsWith(`${workspace.folder}/`)
        ? []
        : [`${source.path} imports ${specifier}, outside its workspace`];
    }
    const name = specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
    const forTests = isTest(source.path) || /testing\.ts$/.test(source.path);
    // A package may call itself by its own name, as its users do.
    const declared = [workspace.name, ...workspace.dependencies, ...(forTests ? shared : []), "node"];
    return declared.includes(name) ? [] : [`${source.path} imports ${name}, which its package.json does not declare`];
  });
}

test("arrows: the ledger and the rails call nobody", () => {
  // A bench stands on the other side of the wire, as a test does.
  const asks = (path: string) => isTest(path) || path.endsWith(".bench.ts");
  const callers = code.filter(({ path }) => CALL_NOBODY.some((folder) => path.startsWith(folder)) && !asks(path));
  const calling = callers.filter((source) => importsOf(source).includes("@cauri/rpc/client"));
  complain(calling.map(({ path }) => `${path} imports @cauri/rpc/client: what it needs is sent to it`));
});

test("files: none is longer than 400 lines without a reason in its header", () => {
  const long = code.filter(({ text }) => text.split("\n").length > LONGEST_FILE + 1);
  const unexplained = long.filter(({ text }) => !header(text).includes(LONG_ON_PURPOSE));
  complain(unexplained.map(({ path, text }) => `${path} has ${text.split("\n").length - 1} lines: split it by noun`));
});

test("files: each begins with a header that says its purpose", () => {
  // A test file is named after what it tests, which has the header.
  const silent = code.filter(({ path, text }) => !path.endsWith(".test.ts") && !withoutShebang(text).startsWith("// "));
  const wordy = code.filter(({ text }) => headerLength(text) > HEADER_LINES);
  complain([
    ...silent.map(({ path }) => `${path} has no header comment`),
    ...wordy.map(({ path, text }) => `${path} has a header of ${headerLength(text)} lines; at most ${HEADER_LINES}`),
  ]);
});

function withoutShebang(text: string): string {
  return text.replace(/^#!.*\n/, "");
}

function header(text: string): string {
  return withoutShebang(text).split("\n").slice(0, HEADER_LINES).join("\n");
}

function headerLength(text: string): number {
  const lines = withoutShebang(text).split("\n");
  const end = lines.findIndex((line) => !line.startsWith("//"));
  return end < 0 ? lines.length : end;
}

test("files: no name under which anything could be put", () => {
  complain(
    files.filter((path) => SHAPELESS.test(path.split("/").at(-1) ?? "") && code.some((file) => file.path === path)),
  );
});

test("tokens: what is banned has its replacement", () => {
  const scanned = files.filter((path) => SOURCES.test(path)).map(read);
  complain(scanned.flatMap((source) => BANS.flatMap((ban) => findBanned(source, ban))));
});

function findBanned({ path, text }: Source, { pattern, where, except, instead }: Ban): string[] {
  if (!where.test(path) || except?.test(path) || path === "tools/tidy.test.ts") return [];
  return text.split("\n").flatMap((line, at) => {
    // A comment may name what is banned, in order to say why.
    const found = /^\s*(\/\/|\*|\/\*|--)/.test(line) ? null : pattern.exec(line);
    return found === null ? [] : [`${path}:${at + 1} has ${found[0]}; instead: ${instead}`];
  });
}

test("files: nothing names a path of one machine", () => {
  const texts = files.filter((path) => !/\.(lock|png|svg|ico|binpb)$|package-lock\.json$/.test(path)).map(read);
  complain(
    texts.flatMap(({ path, text }) =>
      MACHINE_PATHS.flatMap((pattern) => {
        const found = pattern.exec(text);
        return found === null ? [] : [`${path} holds ${found[0]}: paths are relative to the repository`];
      }),
    ),
  );
});

test("files: generated code is not in git", () => {
  complain(files.filter((path) => path.startsWith("packages/proto/gen")));
});

test("files: each room has its page", () => {
  const rooms = spaces.filter(({ folder }) => /^services\/|^gateway$/.test(folder)).map(({ folder }) => folder);
  complain(
    rooms.filter((folder) => !files.includes(`${folder}/README.md`)).map((folder) => `${folder} has no README.md`),
  );
});

test("settings: each name of ours in code is a line of the table", () => {
  // Misspelt on purpose.
  const wrong = ["CAURI_WEBHOOK_LADER", "CAURI_DRAIN_MSS"];
  const named = code.flatMap(({ path, text }) =>
    [...text.matchAll(/\bCAURI_[A-Z0-9_]*[A-Z0-9]\b/g)].map(([name]) => ({ path, name })),
  );
  const unknown = named.filter(({ name }) => !Object.hasOwn(SETTINGS, name) && !wrong.includes(name));
  complain(
    unknown.map(({ path, name }) => `${path} names ${name}: packages/rpc/src/settings-table.ts has no such line`),
  );
});

test("migrations: each that needs its room to stand still is on the page of upgrades", () => {
  const page = read("docs/runbooks/upgrade.md").text;
  const breaking = files.filter((path) => path.endsWith(".sql") && /breaking: yes/i.test(read(path).text));
  complain(
    breaking.filter((path) => !page.includes(`\`${path}\``)).map((path) => `docs/runbooks/upgrade.md lacks ${path}`),
  );
});

test("files: none is dead", () => {
  const used = new Set<string>();
  for (const source of code) {
    for (const specifier of importsOf(source)) {
      const target = resolveImport(source.path, specifier);
      // A test does not keep alive what nothing else uses, except what is made for tests.
      if (target !== null && (!isTest(source.path) || /testing\.ts$|^test\/|^tools\//.test(target))) used.add(target);
    }
  }
  const dead = code.filter(({ path }) => !used.has(path) && !isTest(path) && !isNamed(path));
  complain(dead.map(({ path }) => `${path} is imported by nothing and named nowhere: remove it`));
});

/** Whether a file is an entry: started by its path, or named in a manifest, a script or another source. */
function isNamed(path: string): boolean {
  if (/^(services\/[^/]+|gateway)\/src\/main\.ts$/.test(path)) return true;
  return files.some((other) => {
    if (other === path || !/\.(ts|mjs|js|json|md)$|(^|\/)run$/.test(other)) return false;
    const { text } = read(other);
    return (
      text.includes(path) || (other.endsWith("package.json") && text.includes(path.split("/").slice(-2).join("/")))
    );
  });
}
