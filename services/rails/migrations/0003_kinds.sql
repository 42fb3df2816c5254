-- Attempts of more kinds than collections: what goes out (payouts), which no payer's time ends, which may come back after a
-- success, and which may be withheld before it leaves.
-- Lock: attempts and the simulator's tables for the moment of each change; a default without a rewrite, checks validated
-- over rows that all satisfy the narrower ones they replace. breaking: no

alter table attempts
  add column kind text not null default 'collection' constraint attempts_kind check (kind in ('collection', 'payout')),
  -- Null: nothing ends the asking.
  alter column expires_at drop not null,
  drop constraint attempts_state,
  add constraint attempts_state check (state in
    ('ready', 'sending', 'unknown', 'pending', 'success', 'failed', 'cancelled', 'returned', 'withheld')),
  drop constraint attempts_served,
  add constraint attempts_served check (state in ('ready', 'withheld') or (rail is not null and connector is not null)),
  add constraint attempts_expiry check (kind <> 'collection' or expires_at is not null);

alter table simulator_charges
  add column kind text not null default 'collection' constraint simulator_charges_kind check (kind in ('collection', 'payout')),
  alter column expires_at drop not null,
  drop constraint simulator_charges_state,
  add constraint simulator_charges_state
    check (state in ('turned_down', 'pending', 'success', 'failed', 'cancelled', 'expired', 'returned'));

alter table simulator_events
  drop constraint simulator_events_news,
  add constraint simulator_events_news check (news in ('settle', 'reject', 'cancel', 'return'));
