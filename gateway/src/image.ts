// The descriptor image that buf builds from proto/: every service, message and option of the house, with the comments
// that are the public documentation. The gateway knows its routes from here and from nowhere else.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import {
  createFileRegistry,
  type DescEnum,
  type DescEnumValue,
  type DescField,
  type DescMessage,
  type DescMethod,
  type DescService,
  type FileRegistry,
  fromBinary,
} from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";

type Documented = DescEnum | DescEnumValue | DescField | DescMessage | DescMethod | DescService;

/** Field numbers of descriptor.proto, of which the paths of source comments are made. */
const MESSAGE = 4;
const ENUM = 5;
const SERVICE = 6;
const NESTED_MESSAGE = 3;
const NESTED_ENUM = 4;
const MEMBER = 2;

export function loadImage(): FileRegistry {
  return readImage(readFileSync(fileURLToPath(import.meta.resolve("@cauri/proto/image"))));
}

export function readImage(bytes: Uint8Array): FileRegistry {
  return createFileRegistry(fromBinary(FileDescriptorSetSchema, bytes));
}

export function* servicesOf(registry: FileRegistry): Iterable<DescService> {
  for (const desc of registry) if (desc.kind === "service") yield desc;
}

/** The comment above an element, its lines joined; a blank line stays a paragraph. */
export function commentOf(desc: Documented): string {
  const file =
    desc.kind === "enum_value" || desc.kind === "field" || desc.kind === "rpc" ? desc.parent.file : desc.file;
  const path = pathOf(desc).join();
  const found = file.proto.sourceCodeInfo?.location.find((location) => location.path.join() === path);
  const text = (found?.leadingComments ?? "").trim();
  return text
    .split(/\n\s*\n/)
    .map((paragraph) => paragraph.replace(/\s*\n\s*/g, " ").trim())
    .join("\n\n");
}

function pathOf(desc: Documented): number[] {
  switch (desc.kind) {
    case "service":
      return [SERVICE, desc.file.proto.service.indexOf(desc.proto)];
    case "rpc":
      return [...pathOf(desc.parent), MEMBER, desc.parent.proto.method.indexOf(desc.proto)];
    case "message":
      return desc.parent === undefined
        ? [MESSAGE, desc.file.proto.messageType.indexOf(desc.proto)]
        : [...pathOf(desc.parent), NESTED_MESSAGE, desc.parent.proto.nestedType.indexOf(desc.proto)];
    case "enum":
      return desc.parent === undefined
        ? [ENUM, desc.file.proto.enumType.indexOf(desc.proto)]
        : [...pathOf(desc.parent), NESTED_ENUM, desc.parent.proto.enumType.indexOf(desc.proto)];
    case "enum_value":
      return [...pathOf(desc.parent), MEMBER, desc.parent.proto.value.indexOf(desc.proto)];
    case "field":
      return [...pathOf(desc.parent), MEMBER, desc.parent.proto.field.indexOf(desc.proto)];
  }
}
