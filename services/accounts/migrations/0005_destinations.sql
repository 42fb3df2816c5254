-- Where a platform can send money to. Why: a payout names a destination, and a bank has no wallets.
-- Lock: platforms alone, a handful of rows, for a moment. breaking: no
alter table platforms add column destination_types text[] not null default '{mobile_wallet}'
  constraint platforms_destination_types check (destination_types <@ '{mobile_wallet,bank_account}');

update platforms set destination_types = '{bank_account}' where platform_id = 'plt_bank_ci';
-- The instant scheme joins wallets and banks.
update platforms set destination_types = '{mobile_wallet,bank_account}' where platform_id = 'plt_pi_ci';
