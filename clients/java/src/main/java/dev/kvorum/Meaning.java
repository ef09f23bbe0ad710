package dev.kvorum;

/** What an attempt without success means for the request. */
enum Meaning {
    /** Nothing was done: another node may do it. */
    NOT_APPLIED,
    /** It may have been done, or may be done later. */
    UNKNOWN,
    /** The condition of a write does not hold. */
    CONFLICT,
    /** Any node would refuse it. */
    REFUSED
}
