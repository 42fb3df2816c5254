// The repository's own files as the tidiness tests see them: by kind, with what they import.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

export const root = dirname(import.meta.dirname);

export type Source = {
  /** Path in the repository, with forward slashes. */
  readonly path: string;
  readonly text: string;
};

export type Workspace = {
  /** Folder in the repository, such as `packages/money`. */
  readonly folder: string;
  readonly name: string;
  readonly dependencies: readonly string[];
};

/** Every file that git knows or would add: what a review sees. */
export function repositoryFiles(): string[] {
  const args = ["ls-files", "--cached", "--others", "--exclude-standard"];
  const listed = execFileSync("git", args, { cwd: root, encoding: "utf8", maxBuffer: 64 << 20 });
  // A file that was removed but not yet committed is still listed.
  return listed.split("\n").filter((path) => path !== "" && existsSync(join(root, path)));
}

export function read(path: string): Source {
  return { path, text: readFileSync(join(root, path), "utf8") };
}

export function codeFiles(files: readonly string[]): Source[] {
  return files.filter((path) => /\.(ts|mjs|js)$/.test(path)).map(read);
}

export function workspaces(files: readonly string[]): Workspace[] {
  const manifests = files.filter((path) =>
    /^(packages\/[^/]+|services\/[^/]+|web\/[^/]+|gateway|cli)\/package\.json$/.test(path),
  );
  return manifests.map((path) => {
    const manifest = JSON.parse(read(path).text) as {
      name: string;
      dependencies?: Record<string, string>;
      devDependencies?: Record<string, string>;
    };
    const dependencies = Object.keys({ ...manifest.dependencies, ...manifest.devDependencies });
    return { folder: dirname(path), name: manifest.name, dependencies };
  });
}

/** What a file imports, as written: static and dynamic imports and re-exports. */
export function importsOf({ text }: Source): string[] {
  const pattern = /(?:^|\n)\s*(?:import|export)\b[^;"'`]*?\bfrom\s*["']([^"']+)["']|\bimport\s*\(?\s*["']([^"']+)["']/g;
  return [...text.matchAll(pattern)].map((match) => match[1] ?? match[2] ?? "");
}

/** The repository path that an import means; null for a package from the registry or Node itself. */
export function resolveImport(from: string, specifier: string): string | null {
  if (specifier.startsWith(".")) return relative(root, join(root, dirname(from), specifier)).replaceAll("\\", "/");
  const [, name, rest] = /^@cauri\/([^/]+)\/(.+)$/.exec(specifier) ?? [];
  if (name === undefined || rest === undefined || name === "proto") return null;
  return `packages/${name}/src/${rest}.ts`;
}

export function isTest(path: string): boolean {
  return /\.test\.ts$/.test(path) || path.startsWith("test/");
}
