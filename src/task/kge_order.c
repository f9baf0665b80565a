/*
 * kge_order.c -- which triples of an epoch are whose, and in what order.
 *
 * SHARED: all triples have one random order, cut into groups of which the
 * workers take one each in turns. Order, groups and what is drawn for them
 * belong to the epoch, not to a worker: many workers do what one would have
 * done, only side by side.
 *
 * FILE: a worker has a piece of the file, in a random order of its own. Where
 * neighbours in the file have rows in common, each node then uses fewer rows
 * of the others.
 */
#include "task/kge.h"

#define EPOCH_SHIFT 48 // places of an epoch's groups do not reach the next's

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* SHARED: the triples of the share's whole groups, and the rest after the last
 * whole group if that is the share's turn. */
static uint64_t count_shared(const muster_kge_order *o)
{
    uint64_t whole = o->all / o->group;
    uint64_t rest = whole % o->parts == o->part ? o->all % o->group : 0;
    return (whole + o->parts - 1 - o->part) / o->parts * o->group + rest;
}

muster_kge_order muster_kge_order_make(const muster_kge *k,
                                       const muster_task_share *share,
                                       uint32_t group)
{
    muster_kge_order o = {.all = k->triples.count[MUSTER_TRIPLES_TRAIN],
                          .part = share->part,
                          .parts = share->parts,
                          .epoch = share->epoch,
                          .group = group,
                          .pieces = k->options.order == MUSTER_KGE_FILE};
    if (!o.pieces) {
        o.count = count_shared(&o);
        o.perm = muster_perm_make(k->seed, o.epoch, o.all);
        return o;
    }
    o.start = o.all * o.part / o.parts;
    o.count = o.all * (o.part + 1) / o.parts - o.start;
    o.perm =
        muster_perm_make(k->seed + o.part, o.epoch, o.count > 0 ? o.count : 1);
    return o;
}

uint32_t muster_kge_order_size(const muster_kge_order *o, uint64_t at)
{
    return (uint32_t)(at < o->count ? min(o->count - at, o->group) : 0);
}

/* The group's number among those of all shares. */
static uint64_t group_number(const muster_kge_order *o, uint64_t at)
{
    uint64_t groups = o->all / o->group + 1;
    uint64_t mine = at / o->group;
    return o->pieces ? o->part * groups + mine : mine * o->parts + o->part;
}

uint64_t muster_kge_order_triple(const muster_kge_order *o, uint64_t at)
{
    return o->pieces ? o->start + muster_perm_at(&o->perm, at)
                     : muster_perm_at(&o->perm, group_number(o, at) * o->group +
                                                    at % o->group);
}

uint64_t muster_kge_order_place(const muster_kge_order *o, uint64_t at)
{
    return (uint64_t)o->epoch << EPOCH_SHIFT | group_number(o, at);
}

double muster_kge_order_epochs(const muster_kge_order *o, uint64_t at)
{
    double middle = muster_kge_order_size(o, at) / 2.0;
    double gone = o->pieces
                      ? ((double)at + middle) / (double)o->count
                      : ((double)(group_number(o, at) * o->group) + middle) /
                            (double)o->all;
    return o->epoch + gone;
}
