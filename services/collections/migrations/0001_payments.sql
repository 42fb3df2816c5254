-- Payments and what the rails said of them.
-- Why: the read model is the write model: masks only, so that every read is local and no raw detail is ever here.
-- Lock: none on existing tables, only new ones. breaking: no

create table payments (
  id text collate "C" primary key,
  account text collate "C" not null,
  mode text not null,
  -- Position in the merchant's list, taken when the row is written: a payment is visible from its first transaction.
  n bigint not null,
  reference text collate "C" not null,
  client_ref text collate "C",
  status text not null,
  amount_minor bigint not null,
  -- Computed once, at creation.
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
  return_url text,
  cancel_url text,
  -- json, not jsonb: it is given back as it was sent.
  metadata json,
  -- The payer, masked by rails, which alone keeps the raw details.
  has_payer boolean not null,
  payer_phone text,
  payer_name text,
  payer_email text,
  payment_url text,
  deep_link text,
  qr text,
  failure_code text,
  refunded_minor bigint not null default 0,
  payment_link_id text,
  subscription_id text,
  -- Number of the last event told to the world.
  version integer not null,
  -- Version of the rail's last word that was taken into account.
  rail_version bigint not null default 0,
  expires_at timestamptz not null,
  -- When the expiry sweeper looks next: at expires_at, later again while the rail is silent.
  check_at timestamptz not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  completed_at timestamptz,
  constraint payments_reference unique (reference),
  constraint payments_mode check (mode in ('test', 'live')),
  constraint payments_status check (status in ('initiated', 'pending', 'success', 'failed', 'cancelled', 'refunded')),
  constraint payments_failure_code check (failure_code in (
    'insufficient_funds', 'payer_rejected', 'expired', 'payer_not_found', 'payee_not_found', 'limit_exceeded',
    'account_blocked', 'name_mismatch', 'operator_unavailable', 'fraud_suspected', 'duplicate', 'unknown')),
  constraint payments_failure check ((status = 'failed') = (failure_code is not null)),
  constraint payments_completed check ((status in ('initiated', 'pending')) = (completed_at is null)),
  constraint payments_amounts check (
    amount_minor > fee_minor and fee_minor >= 0 and amount_minor <= 9007199254740991
    and refunded_minor between 0 and amount_minor),
  constraint payments_version check (version >= 1)
) with (fillfactor = 85);

select install_list('payments', 'payment');

-- What the expiry sweeper looks through: by real time, and by the clock of those test accounts that moved theirs on.
create index payments_check on payments (check_at) where status = 'pending';
create index payments_check_test on payments (account, check_at) where status = 'pending' and mode = 'test';

-- Everything that was said of a payment, taken into account or not; nothing here moves anything.
create table payment_news (
  payment_id text collate "C" not null references payments,
  -- answer: of the call. asked: of an asking. news: of a rail by itself. expiry, give_up: our own decision.
  source text not null,
  -- The rail's own count; 0 for our own decisions.
  rail_version bigint not null,
  says text not null,
  applied boolean not null,
  failure_code text,
  paid_minor bigint,
  paid_currency text,
  recorded_at timestamptz not null default clock_timestamp(),
  constraint payment_news_pkey primary key (payment_id, rail_version, source, says),
  constraint payment_news_source check (source in ('answer', 'asked', 'news', 'expiry', 'give_up')),
  constraint payment_news_says check (says in ('accept', 'settle', 'reject', 'cancel', 'mispay'))
);
