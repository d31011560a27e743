UPDATE signing_secrets SET previous_until = previous_until + :milliseconds
WHERE previous_until IS NOT NULL;
