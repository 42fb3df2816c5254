-- Payouts and what rails said of them; what moves inside the house, and the rows in which each side sees it.
-- Why: the read model is the write model: masks only, so that every read is local and no raw detail is ever here.
-- Lock: none on existing tables, only new ones. breaking: no

create table payouts (
  id text collate "C" primary key,
  account text collate "C" not null,
  mode text not null,
  -- Position in the merchant's list; null while it is a draft, which nobody sees.
  n bigint,
  reference text collate "C" not null,
  client_ref text collate "C",
  status text not null,
  amount_minor bigint not null,
  -- Computed once, at creation; on top of the amount.
  fee_minor bigint not null,
  asset_id text not null,
  currency text not null,
  scale smallint not null,
  platform_id text not null,
  -- The rail that serves it; null while none does.
  rail text,
  -- What the terms offered at creation, in order: an interrupted creation goes on with them.
  rails text[] not null,
  forced boolean not null,
  merchant_name text not null,
  description text,
  -- json, not jsonb: it is given back as it was sent.
  metadata json,
  -- Where the money goes, masked by rails, which alone keeps the raw details.
  destination json not null,
  failure_code text,
  -- Number of the last event told to the world.
  version integer not null default 0,
  -- Version of the rail's last word that was taken into account.
  rail_version bigint not null default 0,
  -- When a pending one is looked after, should the rail's news not come.
  check_at timestamptz not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  completed_at timestamptz,
  constraint payouts_reference unique (reference),
  constraint payouts_mode check (mode in ('test', 'live')),
  constraint payouts_status check (status in ('draft', 'initiated', 'pending', 'success', 'failed', 'cancelled', 'refunded')),
  constraint payouts_draft check ((status = 'draft') = (n is null)),
  constraint payouts_failure_code check (failure_code in (
    'insufficient_funds', 'payer_rejected', 'expired', 'payer_not_found', 'payee_not_found', 'limit_exceeded',
    'account_blocked', 'name_mismatch', 'operator_unavailable', 'fraud_suspected', 'duplicate', 'unknown')),
  constraint payouts_failure check ((status = 'failed') = (failure_code is not null)),
  constraint payouts_completed check ((status in ('draft', 'initiated', 'pending')) = (completed_at is null)),
  constraint payouts_amounts check (amount_minor > 0 and fee_minor >= 0 and amount_minor <= 9007199254740991)
) with (fillfactor = 80);

select install_list('payouts', 'payout');

-- What is looked after: by real time, and by the clock of those test accounts that moved theirs on.
create index payouts_check on payouts (check_at) where status = 'pending';
create index payouts_check_test on payouts (account, check_at) where status = 'pending' and mode = 'test';

-- Everything that was said of a payout, taken into account or not; nothing here moves anything.
create table payout_news (
  payout_id text collate "C" not null references payouts,
  -- answer: of the call. asked: of an asking. news: of a rail by itself. withheld, books: our own decision.
  source text not null,
  -- The rail's own count; 0 for our own decisions.
  rail_version bigint not null,
  says text not null,
  applied boolean not null,
  failure_code text,
  paid_minor bigint,
  paid_currency text,
  recorded_at timestamptz not null default clock_timestamp(),
  constraint payout_news_pkey primary key (payout_id, rail_version, source, says),
  constraint payout_news_source check (source in ('answer', 'asked', 'news', 'withheld', 'books')),
  constraint payout_news_says check (says in ('accept', 'settle', 'reject', 'return', 'cancel', 'mispay'))
);

-- The intent of a transfer or rebalance, written before the ledger is asked: whoever finds it posts it again and finishes.
create table movements (
  id text collate "C" primary key,
  kind text not null constraint movements_kind check (kind in ('transfer', 'rebalance')),
  account text collate "C" not null,
  mode text not null constraint movements_mode check (mode in ('test', 'live')),
  reference text collate "C" not null,
  client_ref text collate "C",
  amount_minor bigint not null,
  asset_id text not null,
  platform_id text not null,
  -- Who receives, and where: of a rebalance the account itself on another platform.
  receiver text collate "C" not null,
  to_platform_id text not null,
  description text,
  metadata json,
  is_done boolean not null default false,
  constraint movements_reference unique (reference),
  constraint movements_amount check (amount_minor between 1 and 9007199254740991),
  constraint movements_ends check (
    case kind when 'transfer' then receiver <> account and to_platform_id = platform_id
              else receiver = account and to_platform_id <> platform_id end)
) with (fillfactor = 80);

-- One row for each account that sees a transfer: the sender's and the receiver's.
create table transfers (
  id text collate "C" not null,
  account text collate "C" not null,
  mode text not null,
  n bigint not null,
  reference text collate "C" not null,
  client_ref text collate "C",
  status text not null constraint transfers_status check (status = 'success'),
  direction text not null constraint transfers_direction check (direction in ('out', 'in')),
  amount_minor bigint not null,
  asset_id text not null,
  platform_id text not null,
  source_account_id text collate "C" not null,
  destination_account_id text collate "C" not null,
  description text,
  metadata json,
  created_at timestamptz not null,
  primary key (id, account)
);
create unique index transfers_reference on transfers (reference, account);
select install_list('transfers', 'transfer');

create table rebalances (
  id text collate "C" primary key,
  account text collate "C" not null,
  mode text not null,
  n bigint not null,
  reference text collate "C" not null,
  client_ref text collate "C",
  status text not null constraint rebalances_status check (status = 'success'),
  amount_minor bigint not null,
  asset_id text not null,
  from_platform_id text not null,
  to_platform_id text not null,
  metadata json,
  created_at timestamptz not null,
  constraint rebalances_reference unique (reference)
);
select install_list('rebalances', 'rebalance');
