SELECT * FROM replies WHERE tenant = :tenant AND key = :key AND created_at > :oldest;
