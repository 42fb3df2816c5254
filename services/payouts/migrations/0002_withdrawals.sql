-- Withdrawal requests, and what rails said of those that were sent.
-- Why: a request reserves nothing and waits for a person; approving it begins what a creation begins for a payout.
-- Lock: none on existing tables, only new ones. breaking: no

create table withdrawals (
  id text collate "C" primary key,
  account text collate "C" not null,
  mode text not null,
  n bigint not null,
  reference text collate "C" not null,
  client_ref text collate "C",
  status text not null,
  -- What the merchant asked for and the fee that is taken out of it, fixed at the request; the amount is what goes out.
  requested_minor bigint not null,
  fee_minor bigint not null,
  amount_minor bigint not null generated always as (requested_minor - fee_minor) stored,
  asset_id text not null,
  currency text not null,
  scale smallint not null,
  -- Whose balance is withdrawn, and where the settlement account is.
  from_platform_id text not null,
  platform_id text not null,
  -- The rail that serves it; null while none does. What the terms offered at the approval, in order.
  rail text,
  rails text[] not null default '{}',
  merchant_name text not null,
  note text,
  -- json, not jsonb: it is given back as it was sent.
  metadata json,
  -- The settlement account at the request, masked by rails, which alone keeps the raw details.
  destination json not null,
  decision_note text,
  -- Number of the last approval that was begun: the ledger remembers a refusal, so each asks under ids of its own.
  approval integer not null default 0,
  failure_code text,
  -- Counts its changes.
  version integer not null default 0,
  -- Version of the rail's last word that was taken into account.
  rail_version bigint not null default 0,
  -- When an approved or processing one is looked after, should the rail's news not come.
  check_at timestamptz not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  decided_at timestamptz,
  paid_at timestamptz,
  constraint withdrawals_reference unique (reference),
  constraint withdrawals_mode check (mode in ('test', 'live')),
  constraint withdrawals_status check (status in ('requested', 'approved', 'processing', 'paid', 'failed', 'rejected')),
  constraint withdrawals_failure_code check (failure_code in (
    'insufficient_funds', 'payer_rejected', 'expired', 'payer_not_found', 'payee_not_found', 'limit_exceeded',
    'account_blocked', 'name_mismatch', 'operator_unavailable', 'fraud_suspected', 'duplicate', 'unknown')),
  constraint withdrawals_failure check ((status = 'failed') = (failure_code is not null)),
  constraint withdrawals_decided check ((status = 'requested') = (decided_at is null)),
  constraint withdrawals_paid check ((status = 'paid') = (paid_at is not null)),
  constraint withdrawals_amounts check (fee_minor between 0 and requested_minor and requested_minor between 1 and 9007199254740991)
) with (fillfactor = 80);

select install_list('withdrawals', 'withdrawal');

create index withdrawals_check on withdrawals (check_at) where status in ('approved', 'processing');

-- Everything that was said of a withdrawal, taken into account or not; nothing here moves anything.
create table withdrawal_news (
  withdrawal_id text collate "C" not null references withdrawals,
  source text not null,
  rail_version bigint not null,
  says text not null,
  applied boolean not null,
  failure_code text,
  paid_minor bigint,
  paid_currency text,
  recorded_at timestamptz not null default clock_timestamp(),
  constraint withdrawal_news_pkey primary key (withdrawal_id, rail_version, source, says),
  constraint withdrawal_news_source check (source in ('answer', 'asked', 'news', 'withheld', 'books')),
  constraint withdrawal_news_says check (says in ('accept', 'settle', 'reject', 'return', 'cancel', 'mispay'))
);
