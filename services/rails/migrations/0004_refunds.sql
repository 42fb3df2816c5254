-- Attempts that give a collection back: one more kind of what goes out.
-- Lock: attempts and the simulator's charges for the moment of each change; checks validated over rows that all satisfy the
-- narrower ones they replace. breaking: no

alter table attempts
  drop constraint attempts_kind,
  add constraint attempts_kind check (kind in ('collection', 'payout', 'refund'));

alter table simulator_charges
  drop constraint simulator_charges_kind,
  add constraint simulator_charges_kind check (kind in ('collection', 'payout', 'refund'));
