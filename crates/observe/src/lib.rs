//! What a run can be asked about: the observer trait and the built-in observers.
