-- Assets, platforms, rails, corridors and fee lines: reference data as rows, so that a country is added without code.
-- New tables only: no lock on anything that serves. breaking: no
create table assets (
  asset_id text primary key check (asset_id ~ '^ast_[a-z0-9_]+$'),
  code text not null unique check (code ~ '^[A-Z]{3}$'),
  name text not null,
  scale int not null check (scale between 0 and 6)
);

-- A money platform: where funds are held.
create table platforms (
  platform_id text primary key check (platform_id ~ '^plt_[a-z0-9_]+$'),
  name text not null,
  country text not null check (country ~ '^[A-Z]{2}$')
);

-- A place is an asset on a platform: each has its own ledger accounts. `spread_at` is null until every account of the
-- house and of the merchants has been noted for opening there.
create table places (
  platform_id text not null references platforms,
  asset_id text not null references assets,
  spread_at timestamptz,
  primary key (platform_id, asset_id)
);
create index places_to_spread on places (platform_id, asset_id) where spread_at is null;

-- A way to reach a platform. One that prompts the payer's phone needs the number.
create table rails (
  rail text primary key check (rail ~ '^[a-z][a-z0-9_]*$' and rail <> 'simulator'),
  needs_phone boolean not null
);

create table corridors (
  corridor_id text primary key check (corridor_id ~ '^cor_[a-z0-9_]+$'),
  platform_id text not null,
  asset_id text not null,
  direction text not null,
  is_open boolean not null default true,
  min_amount_minor bigint not null check (min_amount_minor > 0),
  -- 2^53-1, the largest amount that a JSON number carries exactly.
  max_amount_minor bigint not null check (max_amount_minor <= 9007199254740991),
  updated_at timestamptz not null default clock_timestamp(),
  foreign key (platform_id, asset_id) references places,
  unique (platform_id, asset_id, direction),
  constraint corridors_direction check (direction in ('collection', 'payout')),
  constraint corridors_bounds check (min_amount_minor <= max_amount_minor)
);

-- The rails of a corridor, in the order in which routing tries them: the smallest priority first.
create table corridor_rails (
  corridor_id text not null references corridors on delete cascade,
  rail text not null references rails,
  priority int not null check (priority > 0),
  primary key (corridor_id, rail),
  unique (corridor_id, priority)
);

-- A price. Null account: everyone's; null platform: every platform's. One line per key, replaced in place.
create table fee_lines (
  operation text not null,
  asset_id text not null references assets,
  account_id text references accounts,
  platform_id text references platforms,
  percent_bps int not null check (percent_bps between 0 and 10000),
  fixed_minor bigint not null check (fixed_minor between 0 and 9007199254740991),
  min_minor bigint check (min_minor between 0 and 9007199254740991),
  max_minor bigint check (max_minor between 0 and 9007199254740991),
  updated_at timestamptz not null default clock_timestamp(),
  unique nulls not distinct (operation, asset_id, account_id, platform_id),
  constraint fee_lines_operation check (operation in ('collection', 'payout', 'withdrawal')),
  constraint fee_lines_bounds check (min_minor <= max_minor)
);
