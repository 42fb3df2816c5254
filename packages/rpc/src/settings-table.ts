// Every setting of the house, once: `settings.ts` reads the environment by this table, `docs/settings.md` is written from
// it, and a test holds them together. A new setting is a line here with a sentence that an operator understands. (One
// table, hence longer than other files may be.)

/** The programs that read settings; `tools` is the local start and the tests, `cli` the command line. */
export const READERS = [
  "gateway",
  "accounts",
  "ledger",
  "rails",
  "collections",
  "payouts",
  "webhooks",
  "migrate",
  "tools",
  "cli",
] as const;
export type Reader = (typeof READERS)[number];

export type Setting = {
  readonly kind: "text" | "url" | "number" | "numbers" | "flag" | "choice" | "networks" | "file";
  readonly unit?: string;
  /** As it would be written in the environment; null: it must be set; "": it may stay unset. */
  readonly default: string | null;
  /** Bounds of a number, or of each number of a list. */
  readonly min?: number;
  readonly max?: number;
  readonly words?: readonly string[];
  /** What a URL may begin with. */
  readonly schemes?: readonly string[];
  readonly readers: readonly Reader[];
  /** Never shown in a log or an error message. */
  readonly secret?: true;
  /** The sentence of `docs/settings.md`. */
  readonly doc: string;
};

const SERVICES = ["accounts", "ledger", "rails", "collections", "payouts", "webhooks"] as const;
const PROCESSES = ["gateway", ...SERVICES] as const;
const PORT = { kind: "number", unit: "port", min: 0, max: 65_535 } as const;
const SECRET = { kind: "text", secret: true, default: null } as const;
const WEB = { kind: "url", schemes: ["http", "https"] } as const;
const DATABASE = { kind: "url", schemes: ["postgres", "postgresql"], secret: true, default: null } as const;
const ADDRESS = { kind: "text", unit: "host:port", default: null } as const;

export const SETTINGS = {
  // What every process has.
  NATS_URL: {
    kind: "url",
    schemes: ["nats", "tls", "ws", "wss"],
    default: null,
    secret: true,
    readers: PROCESSES,
    doc: "The NATS server or cluster, with JetStream. Several are separated by commas.",
  },
  DATABASE_URL: {
    ...DATABASE,
    readers: ["migrate"],
    doc: "An administrator's PostgreSQL URL, which may create schemas and roles. The migrator alone uses it; given to `npm start`, that server is used instead of a local one.",
  },
  NODE_ENV: {
    kind: "text",
    default: "",
    readers: PROCESSES,
    doc: "`production` refuses settings that are for local use only.",
  },
  CAURI_LOG_LEVEL: {
    kind: "choice",
    words: ["debug", "info", "warn", "error", "silent"],
    default: "info",
    readers: PROCESSES,
    doc: "The least severe log lines that are written.",
  },
  CAURI_BIND_HOST: {
    kind: "text",
    default: "127.0.0.1",
    readers: PROCESSES,
    doc: "The interface that the gRPC and metrics ports are bound to; `0.0.0.0` in a cluster, where a NetworkPolicy stands before them.",
  },
  CAURI_RPC_PORT: {
    ...PORT,
    default: "0",
    readers: SERVICES,
    doc: "The service's own gRPC port; 0 chooses a free one.",
  },
  CAURI_METRICS_PORT: {
    ...PORT,
    default: "0",
    readers: SERVICES,
    doc: "The port of `/healthz`, `/readyz` and `/metrics`; 0 chooses a free one.",
  },
  CAURI_RPC_TOKEN: {
    ...SECRET,
    readers: PROCESSES,
    doc: "What every gRPC call between processes of the house must carry.",
  },
  CAURI_DATABASE_POOL: {
    kind: "number",
    unit: "connections",
    min: 1,
    max: 200,
    default: "10",
    readers: PROCESSES,
    doc: "The most PostgreSQL connections of one process.",
  },
  CAURI_DRAIN_MS: {
    kind: "number",
    unit: "ms",
    min: 0,
    max: 600_000,
    default: "10000",
    readers: PROCESSES,
    doc: "How long a process that is told to stop may finish what runs.",
  },
  CAURI_DRAIN_DELAY_MS: {
    kind: "number",
    unit: "ms",
    min: 0,
    max: 60_000,
    default: "0",
    readers: ["gateway"],
    doc: "How long a gateway that is told to stop still takes requests while `/readyz` says draining and every answer closes its line, so that balancers turn away first. It is part of `CAURI_DRAIN_MS`. In Kubernetes a preStop sleep does the same.",
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    ...WEB,
    default: "",
    readers: PROCESSES,
    doc: "Where spans go, as OTLP over HTTP (JSON), such as `http://collector:4318`. Unset: no traces, and no cost of them.",
  },
  CAURI_TRACE_PERCENT: {
    kind: "number",
    unit: "%",
    min: 0,
    max: 100,
    default: "100",
    readers: PROCESSES,
    doc: "Which part of all traces is kept; every process decides alike by the trace's id, so that none is kept in part.",
  },

  // Where each room's database is.
  CAURI_GATEWAY_DATABASE_URL: {
    ...DATABASE,
    readers: ["gateway"],
    doc: "The schema `gateway`, which holds the rate limit and nothing that may not be lost.",
  },
  CAURI_ACCOUNTS_DATABASE_URL: {
    ...DATABASE,
    readers: ["accounts"],
    doc: "The schema of accounts, as its login role `cauri_accounts`.",
  },
  CAURI_LEDGER_DATABASE_URL: {
    ...DATABASE,
    readers: ["ledger"],
    doc: "The schema of the ledger, as its login role `cauri_ledger`.",
  },
  CAURI_RAILS_DATABASE_URL: {
    ...DATABASE,
    readers: ["rails"],
    doc: "The schema of rails, as its login role `cauri_rails`.",
  },
  CAURI_COLLECTIONS_DATABASE_URL: {
    ...DATABASE,
    readers: ["collections"],
    doc: "The schema of collections, as its login role `cauri_collections`.",
  },
  CAURI_PAYOUTS_DATABASE_URL: {
    ...DATABASE,
    readers: ["payouts"],
    doc: "The schema of payouts, as its login role `cauri_payouts`.",
  },
  CAURI_WEBHOOKS_DATABASE_URL: {
    ...DATABASE,
    readers: ["webhooks"],
    doc: "The schema of webhooks, as its login role `cauri_webhooks`.",
  },

  // Where each room answers.
  CAURI_ACCOUNTS_ADDRESS: {
    ...ADDRESS,
    readers: ["gateway", "collections", "payouts"],
    doc: "The gRPC address of accounts.",
  },
  CAURI_LEDGER_ADDRESS: {
    ...ADDRESS,
    readers: ["gateway", "accounts", "collections", "payouts"],
    doc: "The gRPC address of the ledger.",
  },
  CAURI_RAILS_ADDRESS: {
    ...ADDRESS,
    readers: ["gateway", "accounts", "collections", "payouts"],
    doc: "The gRPC address of rails.",
  },
  CAURI_COLLECTIONS_ADDRESS: { ...ADDRESS, readers: ["gateway"], doc: "The gRPC address of collections." },
  CAURI_PAYOUTS_ADDRESS: { ...ADDRESS, readers: ["gateway"], doc: "The gRPC address of payouts." },
  CAURI_WEBHOOKS_ADDRESS: { ...ADDRESS, readers: ["gateway"], doc: "The gRPC address of webhooks." },

  // Secrets.
  CAURI_KEY_PEPPER: {
    ...SECRET,
    readers: ["gateway", "accounts"],
    doc: "The key of the HMAC under which API keys are stored. Changing it makes every API key unknown.",
  },
  CAURI_FINGERPRINT_KEY: {
    ...SECRET,
    readers: ["collections", "payouts", "webhooks"],
    doc: "The key of the HMAC that tells whether a repeated Idempotency-Key came with the same payload.",
  },
  CAURI_VAULT_KEYS: {
    ...SECRET,
    readers: ["rails", "webhooks"],
    doc: "Encryption keys of payer details and webhook secrets, `id:base64` of 32 bytes, separated by commas. The first one encrypts; keep the others until no row names them.",
  },
  CAURI_OPERATOR_TOKEN: { ...SECRET, readers: ["gateway", "cli"], doc: "The token of the admin door." },

  // The edge.
  CAURI_PORT: {
    ...PORT,
    default: "8080",
    readers: ["gateway", "tools"],
    doc: "The public port: REST, Connect and gRPC-Web, documentation, callbacks, hosted pages.",
  },
  CAURI_ADMIN_PORT: {
    ...PORT,
    default: "8081",
    readers: ["gateway", "tools"],
    doc: "The operators' port: their RPCs over Connect, and `/metrics`. Never in an Ingress.",
  },
  CAURI_GRPC_PORT: {
    ...PORT,
    default: "8082",
    readers: ["gateway", "tools"],
    doc: "The public native gRPC port (h2c).",
  },
  CAURI_PUBLIC_HOST: {
    kind: "text",
    default: "127.0.0.1",
    readers: ["gateway"],
    doc: "The interface that the public and gRPC ports are bound to; `0.0.0.0` in a cluster.",
  },
  CAURI_PAY_URL: {
    ...WEB,
    default: "",
    readers: ["gateway", "rails"],
    doc: "Where hosted pages live; the base URL of the gateway when empty.",
  },
  CAURI_RATE_LIMIT: {
    kind: "number",
    unit: "requests",
    min: 1,
    max: 900,
    default: "300",
    readers: ["gateway"],
    doc: "Admitted requests of one key in one window.",
  },
  CAURI_RATE_WINDOW_S: {
    kind: "number",
    unit: "s",
    min: 1,
    max: 3_600,
    default: "60",
    readers: ["gateway"],
    doc: "The window of the rate limits.",
  },
  CAURI_UNKNOWN_KEY_LIMIT: {
    kind: "number",
    unit: "requests",
    min: 1,
    max: 900,
    default: "60",
    readers: ["gateway"],
    doc: "Requests with an unknown key that one client address may make in one window.",
  },
  CAURI_TRUSTED_PROXIES: {
    kind: "networks",
    default: "",
    readers: ["gateway"],
    doc: "Networks (CIDR, separated by commas) of the proxies before the public door, whose `X-Forwarded-For` is believed. Empty: the client is whoever connects.",
  },
  CAURI_GATEWAY_REPLICAS: {
    kind: "number",
    unit: "processes",
    min: 1,
    max: 1_000,
    default: "1",
    readers: ["gateway"],
    doc: "How many gateways share the rate limit while the database cannot tell: each then admits its share.",
  },

  // Rails and the simulator.
  CAURI_CALLBACK_URL: {
    ...WEB,
    default: null,
    readers: ["rails"],
    doc: "The gateway's address as an operator reaches it for callbacks.",
  },
  CAURI_SIM_SECRET: {
    ...SECRET,
    default: "",
    readers: ["rails"],
    doc: "The key with which the simulator signs its callbacks; without it there is no simulator.",
  },
  CAURI_SIM_DELAY_MS: {
    kind: "number",
    unit: "ms",
    min: 0,
    max: 600_000,
    default: "1000",
    readers: ["rails"],
    doc: "How long the simulator takes until it calls back.",
  },
  CAURI_LIVE_RAILS: {
    kind: "choice",
    words: ["", "simulator"],
    default: "",
    readers: ["gateway", "accounts", "rails", "tools"],
    doc: "`simulator` lets the simulator serve live mode too. Set by `npm start` alone; refused with `NODE_ENV=production`.",
  },

  // Webhooks.
  CAURI_WEBHOOK_LADDER: {
    kind: "numbers",
    unit: "s",
    min: 0,
    max: 604_800,
    default: "60,300,1800,7200",
    readers: ["webhooks"],
    doc: "The waits between the attempts of one delivery, each after the end of the previous attempt.",
  },
  CAURI_WEBHOOK_SUSPEND_S: {
    kind: "number",
    unit: "s",
    min: 1,
    max: 604_800,
    default: "3600",
    readers: ["webhooks"],
    doc: "How long an endpoint rests after 20 consecutive failures, and after each failed probe.",
  },
  CAURI_WEBHOOK_TIMEOUT_MS: {
    kind: "number",
    unit: "ms",
    min: 100,
    max: 60_000,
    default: "10000",
    readers: ["webhooks"],
    doc: "The time one delivery attempt may take in all.",
  },
  CAURI_WEBHOOK_KEEP_S: {
    kind: "number",
    unit: "s",
    min: 1,
    max: 2_592_000,
    default: "259200",
    readers: ["webhooks"],
    doc: "How long a delivery waits for a suspended or inactive endpoint before it is failed.",
  },
  CAURI_WEBHOOK_LOG_DAYS: {
    kind: "number",
    unit: "days",
    min: 1,
    max: 60,
    default: "30",
    readers: ["webhooks"],
    doc: "How long ended deliveries and the log of their attempts are kept.",
  },
  CAURI_WEBHOOK_ALLOW: {
    kind: "networks",
    default: "",
    readers: ["webhooks"],
    doc: "Networks (CIDR, separated by commas) that the outbound guard lets through, for receivers on this machine. Empty in production.",
  },
  CAURI_WEBHOOK_CA: {
    kind: "file",
    default: "",
    readers: ["webhooks"],
    doc: "A PEM file with certificate authorities that are trusted beside the system's.",
  },
  CAURI_WEBHOOK_PARALLEL: {
    kind: "number",
    unit: "deliveries",
    min: 1,
    max: 10_000,
    default: "1024",
    readers: ["webhooks"],
    doc: "Deliveries that one process has in flight at once; those that take longer than a second give up their place, up to sixteen times as many.",
  },
  CAURI_WEBHOOK_PARALLEL_ENDPOINT: {
    kind: "number",
    unit: "deliveries",
    min: 1,
    max: 1_000,
    default: "20",
    readers: ["webhooks"],
    doc: "Deliveries in flight to one endpoint at once, over all processes. Never more than twenty: so many failures suspend it.",
  },
  CAURI_WEBHOOK_PARALLEL_ACCOUNT: {
    kind: "number",
    unit: "deliveries",
    min: 10,
    max: 10_000,
    default: "40",
    readers: ["webhooks"],
    doc: "Deliveries in flight for one account at once, over all processes; its endpoints have equal shares.",
  },

  // Idempotency.
  CAURI_IDEMPOTENCY_KEEP_S: {
    kind: "number",
    unit: "s",
    min: 86_400,
    max: 31_536_000,
    default: "86400",
    readers: ["collections", "payouts", "webhooks"],
    doc: "How long an Idempotency-Key is remembered, at least.",
  },

  // The local start, the command line and the tests.
  CAURI_DATA: {
    kind: "text",
    unit: "folder",
    default: ".cauri",
    readers: ["tools", "cli"],
    doc: "The data folder of the local start.",
  },
  CAURI_ADMIN_URL: {
    ...WEB,
    default: "",
    readers: ["cli"],
    doc: "The admin door that the command line speaks to; from the data folder when empty.",
  },
  CAURI_API_URL: {
    kind: "url",
    default: "",
    readers: ["cli"],
    doc: "The public door that `cauri listen` and `cauri trigger` speak to; from the data folder when empty.",
  },
  CAURI_API_KEY: {
    kind: "text",
    secret: true,
    default: "",
    readers: ["cli"],
    doc: "The API key of `cauri listen` and `cauri trigger`; the local demo account's test key when empty.",
  },
  CAURI_TEST_ADMIN_URL: {
    ...DATABASE,
    default: "",
    readers: ["tools"],
    doc: "The PostgreSQL server of the tests; started by them when empty.",
  },
  CAURI_TEST_NATS_BIN: {
    kind: "text",
    unit: "file",
    default: "",
    readers: ["tools"],
    doc: "The nats-server program of the tests; looked for by them when empty.",
  },
  CAURI_PROFILE: {
    kind: "text",
    unit: "folder",
    default: "",
    readers: ["tools"],
    doc: "Where a local house leaves a CPU profile of each service when it stops; its PostgreSQL then counts statements.",
  },
  CAURI_TEST_HOUSE: {
    kind: "text",
    unit: "folder",
    default: "",
    readers: ["tools"],
    doc: "The data folder of the house that a test run started; set by the run.",
  },
  CAURI_TEST_CERTS: {
    kind: "text",
    unit: "folder",
    default: "",
    readers: ["tools"],
    doc: "The certificates of a test run's webhook receivers; set by the run.",
  },
  CAURI_TEST_SECRETS: {
    kind: "text",
    unit: "file",
    default: "",
    readers: ["tools"],
    doc: "Where a test run collects the secrets that no log may hold; set by the run.",
  },
  CAURI_KILLS: {
    kind: "number",
    unit: "kills",
    min: 1,
    max: 10_000,
    default: "12",
    readers: ["tools"],
    doc: "How many processes a crash test kills; those of the ledger and of webhooks alone 6 unless given.",
  },
  CAURI_PHASES: {
    kind: "number",
    unit: "kills",
    min: 1,
    max: 10_000,
    default: "8",
    readers: ["tools"],
    doc: "How many phases of operations the crash tests kill a process in.",
  },
  CAURI_OUTAGE_S: {
    kind: "number",
    unit: "s",
    min: 1,
    max: 600,
    default: "12",
    readers: ["tools"],
    doc: "How long the crash tests leave a house without PostgreSQL, and then without NATS.",
  },
  CAURI_HISTORIES: {
    kind: "text",
    unit: "histories",
    default: "",
    readers: ["tools"],
    doc: "How many histories the ledger and webhooks are held against their models in: 2,000 and 25 when empty.",
  },
  CAURI_MERCHANTS: {
    kind: "text",
    unit: "merchants",
    default: "",
    readers: ["tools"],
    doc: "How many merchants' lives the rooms are held against their model in: 25 when empty.",
  },
  CAURI_SEED: {
    kind: "text",
    default: "",
    readers: ["tools"],
    doc: "Which histories or lives: those of the run that printed this seed; others each time when empty.",
  },
  CAURI_MUTANT: {
    kind: "text",
    default: "",
    readers: ["tools"],
    doc: "The mutant that a test has to catch; set by `npm run prove`.",
  },
} as const satisfies { readonly [name: string]: Setting };
