/*
 * sim_echo.c -- messages that come again, much later.
 *
 * A few of the messages that a host has heard from another are kept, those of
 * the connection in use apart from those of earlier ones. Now and then one of
 * them follows a message that is heard, over the connection of that one: a
 * duplicate of an earlier step, or a message of an earlier life. Only what was
 * heard comes again, so no echo is ever the first to arrive; and it is the
 * sender's: when its process ends, so does what it said. Greetings and
 * heartbeats do not echo.
 */
#include "base/mem.h"
#include "sim/sim_inside.h"

static bool may_echo(muster_message_kind kind)
{
    return kind != MUSTER_MSG_HELLO && kind != MUSTER_MSG_WELCOME &&
           kind != MUSTER_MSG_REFUSE && kind != MUSTER_MSG_HEARTBEAT;
}

static void keep(muster_sim_echoes *echoes, unsigned which,
                 const muster_message *message, muster_blob *payload)
{
    uint64_t place = echoes->heard[which].count++ % MUSTER_SIM_ECHOES;
    muster_sim_heard *heard = &echoes->heard[which].list[place];
    muster_blob_unref(heard->payload);
    heard->message = *message;
    heard->payload = muster_blob_ref(payload);
}

/* A new connection: what came by the last one is now of an earlier one. */
static void turn_page(muster_sim_echoes *echoes, muster_role_peer peer)
{
    uint64_t count = echoes->heard[0].count;
    for (uint64_t i = 0; i < count && i < MUSTER_SIM_ECHOES; i++) {
        muster_sim_heard *heard = &echoes->heard[0].list[i];
        keep(echoes, 1, &heard->message, heard->payload);
        muster_blob_unref(heard->payload);
        heard->payload = NULL;
    }
    echoes->heard[0].count = 0;
    echoes->peer = peer;
}

static void push_echo(muster_sim *sim, const muster_sim_item *item,
                      const muster_sim_echoes *echoes)
{
    bool earlier =
        echoes->heard[1].count > 0 && muster_rng_below(&sim->rng, 2) == 0;
    uint64_t count = echoes->heard[earlier].count;
    if (count == 0) {
        return;
    }
    count = count < MUSTER_SIM_ECHOES ? count : MUSTER_SIM_ECHOES;
    const muster_sim_heard *heard =
        &echoes->heard[earlier].list[muster_rng_below(&sim->rng, count)];
    muster_blob *payload = muster_blob_ref(heard->payload);
    int64_t at_ns =
        sim->now_ns + muster_sim_delay_ns(sim, item->from, item->host);
    if (payload != NULL && sim->opts.on_echo != NULL) {
        payload = sim->opts.on_echo(sim->opts.context, &heard->message, earlier,
                                    payload);
    }
    muster_sim_item again = {
        .kind = MUSTER_SIM_ROLE,
        .at_ns = at_ns,
        .host = item->host,
        .life = item->life,
        .from = item->from,
        .event = MUSTER_EVENT_MESSAGE,
        .peer = item->peer,
        .parcel = muster_sim_parcel_make(sim, &heard->message, payload),
        .as.echoed = true};
    muster_sim_push(sim, &again);
}

void muster_sim_echo(muster_sim *sim, const muster_sim_item *item)
{
    if (sim->echoes == NULL || item->as.echoed) {
        return;
    }
    muster_sim_echoes *echoes =
        &sim->echoes[(size_t)item->host * sim->hosts + item->from];
    if (echoes->peer != item->peer) {
        turn_page(echoes, item->peer);
    }
    if (muster_rng_uniform(&sim->rng) < sim->opts.echo) {
        push_echo(sim, item, echoes);
    }
    if (may_echo(item->parcel->message.kind)) {
        keep(echoes, 0, &item->parcel->message, item->parcel->payload);
    }
}

void muster_sim_echo_forget(muster_sim *sim, uint32_t from)
{
    for (uint32_t to = 0; sim->echoes != NULL && to < sim->hosts; to++) {
        muster_sim_echoes *echoes =
            &sim->echoes[(size_t)to * sim->hosts + from];
        for (unsigned which = 0; which < 2; which++) {
            for (uint32_t k = 0; k < MUSTER_SIM_ECHOES; k++) {
                muster_blob_unref(echoes->heard[which].list[k].payload);
            }
        }
        *echoes = (muster_sim_echoes){0};
    }
}

void muster_sim_echo_fini(muster_sim *sim)
{
    for (uint32_t from = 0; from < sim->hosts; from++) {
        muster_sim_echo_forget(sim, from);
    }
    muster_mem_free(sim->echoes);
}
