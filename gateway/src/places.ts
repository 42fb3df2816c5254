// Every path that the app serves, with its methods: what the router could not place is 405 here or 404 nowhere.

import type { FastifyReply } from "fastify";
import { type EdgeRefusal, edgeRefusal } from "./reasons.ts";

export class Places {
  readonly #places = new Map<string, { readonly shape: RegExp; readonly methods: Set<string> }>();
  /** Paths without a parameter: they come before those whose parameter would fit them. */
  readonly #plain = new Map<string, Set<string>>();

  add(method: string | string[], url: string): void {
    const shape = url.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/:[A-Za-z_]+/g, "[^/]+");
    const place = this.#places.get(shape) ?? { shape: new RegExp(`^${shape}$`), methods: new Set() };
    for (const one of [method].flat()) place.methods.add(one);
    this.#places.set(shape, place);
    if (!url.includes(":") && !url.includes("*")) this.#plain.set(url, place.methods);
  }

  /** Whether the path stands by itself, without this method. */
  lacks(path: string, method: string): boolean {
    return this.#plain.get(path)?.has(method) === false;
  }

  missing(path: string, reply: FastifyReply): EdgeRefusal {
    const methods = new Set(this.#plain.get(path));
    for (const place of methods.size > 0 ? [] : this.#places.values()) {
      if (place.shape.test(path)) for (const method of place.methods) methods.add(method);
    }
    if (methods.size === 0) return edgeRefusal("not_found", "there is nothing at this path");
    const allowed = [...methods].sort().join(", ");
    reply.header("Allow", allowed);
    return edgeRefusal("method_not_allowed", `this path knows ${allowed}`);
  }
}
