/*
 * member_mesh.c -- the directory: the leader says who lives where, and every
 * node makes its connections agree.
 *
 * Of two nodes the one with the higher number connects; both forget a life that
 * the directory no longer lists. Directories may overtake each other, so an
 * older epoch is ignored.
 */
#include <string.h>

#include "role/member_inside.h"
#include "wire/directory.h"

static bool push_entry(muster_directory *directory, uint32_t id,
                       uint32_t incarnation, const char *address)
{
    muster_directory_entry *entry = muster_vec_push(&directory->entries);
    if (entry == NULL) {
        return false;
    }
    entry->id = id;
    entry->incarnation = incarnation;
    memcpy(entry->address, address, sizeof(entry->address));
    return true;
}

/* NULL when out of memory: a node without it gets it at its next heartbeat. */
static muster_blob *write_directory(const muster_member *member)
{
    muster_directory directory = {
        .epoch = member->epoch,
        .entries = muster_vec_make(sizeof(muster_directory_entry))};
    uint32_t first = muster_member_first_id(member);
    bool whole =
        first == 0 || push_entry(&directory, 0, 0, member->opts.address);
    for (uint32_t id = first; whole && id < member->size; id++) {
        const muster_place *place = &member->places[id];
        if (place->peer != 0) {
            whole =
                push_entry(&directory, id, place->incarnation, place->address);
        }
    }
    muster_blob *blob =
        whole ? muster_blob_create(muster_directory_bytes(&directory)) : NULL;
    if (blob != NULL) {
        muster_directory_write(&directory, blob->data);
    }
    muster_directory_fini(&directory);
    return blob;
}

static void send_directory(muster_member *member, uint32_t id,
                           muster_blob *blob, muster_actions *actions)
{
    muster_member_mail mail = {
        .message = {.kind = MUSTER_MSG_DIRECTORY, .step = member->epoch},
        .payload = muster_blob_ref(blob),
        .replace_slot = MUSTER_SLOT_DIRECTORY};
    muster_member_send(member, id, &mail, actions);
}

/* Leader: tell everybody when somebody came or went. */
void muster_member_publish(muster_member *member, muster_actions *actions)
{
    const muster_news *news = member->news.data;
    bool changed = false;
    for (size_t i = 0; i < member->news.count; i++) {
        changed = changed || news[i].kind == MUSTER_NEWS_JOINED ||
                  news[i].kind == MUSTER_NEWS_LOST;
    }
    if (!changed) {
        return;
    }
    member->epoch++;
    muster_blob *blob = write_directory(member);
    for (uint32_t id = muster_member_first_id(member);
         blob != NULL && id < member->size; id++) {
        send_directory(member, id, blob, actions);
    }
    muster_blob_unref(blob);
}

/* Leader: `id` has the directory of `epoch`; send the newest if it lacks it. */
void muster_member_remind(muster_member *member, uint32_t id, uint64_t epoch,
                          muster_actions *actions)
{
    if (member->opts.mesh && member->opts.leads && epoch < member->epoch) {
        muster_blob *blob = write_directory(member);
        if (blob != NULL) {
            send_directory(member, id, blob, actions);
        }
        muster_blob_unref(blob);
    }
}

static void remove_target(muster_member *member, uint32_t id)
{
    muster_connect_target *target = muster_member_target(member, id);
    if (target != NULL) {
        muster_connect_target *targets = member->targets.data;
        *target = targets[--member->targets.count];
    }
}

/* `entry` is NULL when the directory does not list `id`. False when out of
 * memory: `id` is not yet aimed at. */
static bool agree(muster_member *member, uint32_t id,
                  const muster_directory_entry *entry,
                  const muster_event *event, muster_actions *actions)
{
    muster_place *place = &member->places[id];
    bool same_life = entry != NULL && entry->incarnation <= place->incarnation;
    muster_connect_target *target = muster_member_target(member, id);
    if (!same_life) {
        muster_link *link = muster_member_link(member, id);
        if (link != NULL) {
            muster_member_forget(member, link, "left the directory", true,
                                 event, actions);
        }
        remove_target(member, id);
        target = NULL;
    }
    if (entry == NULL) {
        return true;
    }
    if (!same_life) {
        place->incarnation = entry->incarnation;
    }
    memcpy(place->address, entry->address, sizeof(place->address));
    return id > member->id || target != NULL ||
           muster_member_aim(member, id, entry->address, event->now_ns);
}

void muster_member_directory(muster_member *member, const muster_event *event,
                             muster_actions *actions)
{
    const muster_blob *payload = event->as.message.payload;
    muster_directory directory;
    if (!member->opts.mesh || member->opts.leads || payload == NULL ||
        payload->data == NULL ||
        muster_directory_read(payload->data, payload->bytes, NULL,
                              &directory) != MUSTER_OK) {
        member->strays++;
        return;
    }
    if (directory.epoch > member->epoch) {
        member->epoch = directory.epoch;
        const muster_directory_entry *entries = directory.entries.data;
        size_t next = 0;
        // The connection to the leader looks after itself.
        for (uint32_t id = 0; id < member->size; id++) {
            bool listed =
                next < directory.entries.count && entries[next].id == id;
            const muster_directory_entry *entry =
                listed ? &entries[next++] : NULL;
            if (id != muster_member_leader_id(member) && id != member->id &&
                !agree(member, id, entry, event, actions)) {
                // Our next beat asks for the directory again.
                member->epoch = directory.epoch - 1;
            }
        }
        muster_member_retry(member, event, actions);
    }
    muster_directory_fini(&directory);
}
