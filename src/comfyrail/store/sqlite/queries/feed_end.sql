SELECT max(sequence) AS sequence FROM events;
