-- Also where the newest ones have been removed since: numbers are not given twice.
SELECT seq AS sequence FROM sqlite_sequence WHERE name = 'events';
