-- What was said of a payment no longer asks the payment's row whether it is there.
-- Why: the question locks and reads the payment again for each row of news, a third of that row's price, and guards against
-- nothing: a payment has its number from the beginning and can never be deleted.
-- Lock: payment_news and payments, for a moment. breaking: no

alter table payment_news drop constraint payment_news_payment_id_fkey;
