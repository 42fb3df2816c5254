-- The region's first platforms with fixed ids, so that examples stay true everywhere. Rows only. breaking: no
-- A further country is a later migration of this shape: its platform, places, corridors and their rails. Nothing else.
insert into assets (asset_id, code, name, scale) values
  ('ast_xof', 'XOF', 'West African CFA franc', 0),
  ('ast_xaf', 'XAF', 'Central African CFA franc', 0),
  ('ast_ghs', 'GHS', 'Ghanaian cedi', 2),
  ('ast_ngn', 'NGN', 'Nigerian naira', 2),
  ('ast_usd', 'USD', 'US dollar', 2);

insert into platforms (platform_id, name, country) values
  ('plt_orange_ci', 'Orange Money Côte d''Ivoire', 'CI'),
  ('plt_mtn_ci', 'MTN MoMo Côte d''Ivoire', 'CI'),
  ('plt_wave_ci', 'Wave Côte d''Ivoire', 'CI'),
  ('plt_wave_sn', 'Wave Sénégal', 'SN'),
  ('plt_pi_ci', 'Instant payment Côte d''Ivoire', 'CI'),
  ('plt_bank_ci', 'Bank transfer Côte d''Ivoire', 'CI'),
  ('plt_mtn_gh', 'MTN MoMo Ghana', 'GH');

insert into places (platform_id, asset_id)
select platform_id, case platform_id when 'plt_mtn_gh' then 'ast_ghs' else 'ast_xof' end from platforms;

insert into rails (rail, needs_phone) values
  ('orange_webpay', false),
  ('orange_disburse', false),
  ('mtn_momo', true),
  ('wave', false),
  ('instant', false),
  ('bank_transfer', false);

insert into corridors (corridor_id, platform_id, asset_id, direction, min_amount_minor, max_amount_minor) values
  ('cor_orange_ci_xof_collection', 'plt_orange_ci', 'ast_xof', 'collection', 100, 2000000),
  ('cor_orange_ci_xof_payout', 'plt_orange_ci', 'ast_xof', 'payout', 100, 2000000),
  ('cor_mtn_ci_xof_collection', 'plt_mtn_ci', 'ast_xof', 'collection', 100, 2000000),
  ('cor_mtn_ci_xof_payout', 'plt_mtn_ci', 'ast_xof', 'payout', 100, 2000000),
  ('cor_wave_ci_xof_collection', 'plt_wave_ci', 'ast_xof', 'collection', 100, 2000000),
  ('cor_wave_ci_xof_payout', 'plt_wave_ci', 'ast_xof', 'payout', 100, 2000000),
  ('cor_wave_sn_xof_collection', 'plt_wave_sn', 'ast_xof', 'collection', 100, 2000000),
  ('cor_wave_sn_xof_payout', 'plt_wave_sn', 'ast_xof', 'payout', 100, 2000000),
  ('cor_pi_ci_xof_collection', 'plt_pi_ci', 'ast_xof', 'collection', 100, 2000000),
  ('cor_pi_ci_xof_payout', 'plt_pi_ci', 'ast_xof', 'payout', 100, 2000000),
  ('cor_bank_ci_xof_payout', 'plt_bank_ci', 'ast_xof', 'payout', 100, 50000000),
  ('cor_mtn_gh_ghs_collection', 'plt_mtn_gh', 'ast_ghs', 'collection', 100, 2000000),
  ('cor_mtn_gh_ghs_payout', 'plt_mtn_gh', 'ast_ghs', 'payout', 100, 2000000);

insert into corridor_rails (corridor_id, rail, priority) values
  ('cor_orange_ci_xof_collection', 'orange_webpay', 1),
  ('cor_orange_ci_xof_payout', 'orange_disburse', 1),
  ('cor_mtn_ci_xof_collection', 'mtn_momo', 1),
  ('cor_mtn_ci_xof_payout', 'mtn_momo', 1),
  ('cor_wave_ci_xof_collection', 'wave', 1),
  ('cor_wave_ci_xof_payout', 'wave', 1),
  ('cor_wave_sn_xof_collection', 'wave', 1),
  ('cor_wave_sn_xof_payout', 'wave', 1),
  ('cor_pi_ci_xof_collection', 'instant', 1),
  ('cor_pi_ci_xof_payout', 'instant', 1),
  ('cor_bank_ci_xof_payout', 'bank_transfer', 1),
  ('cor_mtn_gh_ghs_collection', 'mtn_momo', 1),
  ('cor_mtn_gh_ghs_payout', 'mtn_momo', 1);

-- Default prices: collections 1.5 %, payouts 1 %, nothing fixed. No withdrawal line: pricing is closed by default there.
insert into fee_lines (operation, asset_id, percent_bps, fixed_minor)
select operation, asset_id, percent_bps, 0
from assets cross join (values ('collection', 150), ('payout', 100)) as price (operation, percent_bps);
