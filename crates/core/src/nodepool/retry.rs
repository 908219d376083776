//! How long after a refusal the next try comes.
