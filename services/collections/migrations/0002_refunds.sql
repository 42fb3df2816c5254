-- Refunds of payments, and what they have reserved of each payment.
-- Why: how much of a payment may still be given back is decided on its own row, under its lock; the checks hold it even if
-- the code did not.
-- Lock: payments for the moment of each change (a column with a default, without a rewrite; two checks over its rows).
-- breaking: no

alter table payments
  -- Reserved by refunds that are open, drafts included.
  add column refunding_minor bigint not null default 0,
  add constraint payments_refunding check (refunding_minor >= 0 and refunded_minor + refunding_minor <= amount_minor),
  add constraint payments_refunded check ((status = 'refunded') = (refunded_minor = amount_minor)),
  add constraint payments_paid_before check (refunded_minor + refunding_minor = 0 or status in ('success', 'refunded'));

create table refunds (
  id text collate "C" primary key,
  account text collate "C" not null,
  mode text not null,
  -- Position in the merchant's list; null while it is a draft, which nobody sees.
  n bigint,
  reference text collate "C" not null,
  client_ref text collate "C",
  payment_id text collate "C" not null references payments,
  payment_reference text collate "C" not null,
  -- initiated: the funds are held, no rail has it yet; the world sees it as pending.
  status text not null,
  amount_minor bigint not null,
  asset_id text not null,
  currency text not null,
  scale smallint not null,
  platform_id text not null,
  -- The rail that serves it; null while none does.
  rail text,
  -- The rail of the payment, which alone can give it back.
  rails text[] not null,
  merchant_name text not null,
  reason text,
  -- json, not jsonb: it is given back as it was sent.
  metadata json,
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
  constraint refunds_reference unique (reference),
  constraint refunds_mode check (mode in ('test', 'live')),
  constraint refunds_status check (status in ('draft', 'initiated', 'pending', 'success', 'failed')),
  constraint refunds_draft check ((status = 'draft') = (n is null)),
  constraint refunds_reason check (reason in ('duplicate', 'fraudulent', 'requested_by_customer')),
  constraint refunds_failure_code check (failure_code in (
    'insufficient_funds', 'payer_rejected', 'expired', 'payer_not_found', 'payee_not_found', 'limit_exceeded',
    'account_blocked', 'name_mismatch', 'operator_unavailable', 'fraud_suspected', 'duplicate', 'unknown')),
  constraint refunds_failure check ((status = 'failed') = (failure_code is not null)),
  constraint refunds_completed check ((status in ('draft', 'initiated', 'pending')) = (completed_at is null)),
  constraint refunds_amount check (amount_minor between 1 and 9007199254740991)
) with (fillfactor = 80);

select install_list('refunds', 'refund');

create index refunds_payment on refunds (payment_id);
-- What is looked after: by real time, and by the clock of those test accounts that moved theirs on.
create index refunds_check on refunds (check_at) where status = 'pending';
create index refunds_check_test on refunds (account, check_at) where status = 'pending' and mode = 'test';

-- Everything that was said of a refund, taken into account or not; nothing here moves anything.
create table refund_news (
  refund_id text collate "C" not null references refunds,
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
  constraint refund_news_pkey primary key (refund_id, rail_version, source, says),
  constraint refund_news_source check (source in ('answer', 'asked', 'news', 'withheld', 'books')),
  constraint refund_news_says check (says in ('accept', 'settle', 'reject', 'return', 'cancel', 'mispay'))
);
