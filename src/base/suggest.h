/*
 * base/suggest.h -- how far a typed name is from a known one.
 */
#ifndef MUSTER_BASE_SUGGEST_H
#define MUSTER_BASE_SUGGEST_H

/* Letters to insert, delete, change, or swap with their neighbour; names of
 * more than 63 letters are infinitely far (UINT32_MAX) from anything. */
unsigned muster_suggest_distance(const char *typed, const char *known);

/* The largest distance at which a suggestion still helps. */
unsigned muster_suggest_limit(const char *typed);

#endif // MUSTER_BASE_SUGGEST_H
