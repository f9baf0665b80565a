/*
 * scheme.c -- lists the schemes of a cluster, and names them.
 *
 * Two rules keep the list short. Groups of s + m that divide n carry the same
 * load as SPREAD and are ready no later, so SPREAD is left out there. And a
 * scheme whose code would lose more than 1e-4 to float32 is left out by the
 * limits that src/code states for its families; what is chosen is built and
 * measured all the same.
 */
#include "plan/scheme.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/topology.h"
#include "code/hier.h"

/* Of codes in stages: messages of a share where it is cut, and up to which s it
 * is. */
#define PIECES       4u
#define PIECES_S_MAX 4u
/* Their steps are simulated: with more workers fewer are tried. */
#define STAGED_LARGE 128u

typedef struct lister {
    const muster_cluster *cluster;
    bool split;
    muster_vec *schemes;
    bool failed;
} lister;

static void add(lister *list, muster_scheme scheme)
{
    list->failed =
        list->failed || !muster_vec_append(list->schemes, &scheme, 1);
}

/* Groups of d workers that decode from any m: linear:tuned, or copies. */
static bool groups_are_safe(uint32_t d, uint32_t m)
{
    return m == 1 || d <= 20 || (m <= 4 && d <= 60);
}

/* Any n - s of n: ye-abbe-tuned, heter. */
static bool spread_is_safe(uint32_t n, uint32_t s, uint32_t m)
{
    return n <= 20 || (n <= 64 && s <= 8 && m <= 4) || (s <= 4 && m <= 4);
}

/* A layer of hier: groups where they fit, else spread. */
static bool layer_is_safe(uint32_t n, uint32_t s, uint32_t m)
{
    return muster_scheme_groups(n, s, m) ? groups_are_safe(s + m, m)
                                         : spread_is_safe(n, s, m);
}

static void list_flat(lister *list)
{
    uint32_t n = list->cluster->worker_count;
    uint32_t m_max = list->split ? n : 1;
    for (uint32_t m = 1; m <= m_max; m++) {
        for (uint32_t s = 0; s + m <= n; s++) {
            bool uncoded = s == 0 && m == 1;
            // Of equally many groups, those of the largest s + m.
            bool largest = s + m == n / (n / (s + m));
            if (largest && groups_are_safe(s + m, m) && !uncoded) {
                add(list, (muster_scheme){
                              .kind = MUSTER_SCHEME_GROUPS, .s = s, .m = m});
            }
            if (!muster_scheme_groups(n, s, m) && spread_is_safe(n, s, m)) {
                add(list, (muster_scheme){
                              .kind = MUSTER_SCHEME_SPREAD, .s = s, .m = m});
            }
        }
    }
}

static bool speeds_are_equal(lister *list)
{
    uint32_t n = list->cluster->worker_count;
    double *speeds = muster_mem_array(n, sizeof(double));
    if (speeds == NULL) {
        list->failed = true;
        return true;
    }
    bool equal = true;
    muster_cluster_speeds(list->cluster, speeds);
    for (uint32_t i = 1; i < n; i++) {
        equal = equal && speeds[i] == speeds[0];
    }
    muster_mem_free(speeds);
    return equal;
}

static void list_speeds(lister *list)
{
    uint32_t n = list->cluster->worker_count;
    for (uint32_t s = 0; s < n; s++) {
        if (spread_is_safe(n, s, 1)) {
            add(list,
                (muster_scheme){.kind = MUSTER_SCHEME_SPEEDS, .s = s, .m = 1});
        }
    }
}

static void list_orders(lister *list, uint32_t s, uint32_t pieces, bool equal)
{
    muster_scheme scheme = {.kind = MUSTER_SCHEME_STAGED,
                            .s = s,
                            .m = 1,
                            .pieces = pieces,
                            .order = MUSTER_ORDER_CYCLIC};
    add(list, scheme);
    if (list->cluster->worker_count % 2 == 0) {
        scheme.order = MUSTER_ORDER_STAIRCASE;
        add(list, scheme);
    }
    if (!equal &&
        list->cluster->worker_count <= MUSTER_CODE_WORKERS_DENSE_MAX) {
        scheme.order = MUSTER_ORDER_SPEEDS;
        add(list, scheme);
    }
}

/* More pieces are more messages: they are tried where it is known what those
 * cost. */
static void list_staged(lister *list, bool equal)
{
    static const uint32_t tolerances[] = {1, 2, 4, 8, 3, 6, 12, 16};
    uint32_t n = list->cluster->worker_count;
    for (size_t i = 0; i < (n <= STAGED_LARGE ? 8 : 4); i++) {
        uint32_t s = tolerances[i];
        if (s >= n) {
            continue;
        }
        list_orders(list, s, 1, equal);
        if (list->split && s <= PIECES_S_MAX) {
            list_orders(list, s, PIECES, equal);
        }
    }
}

/* All inner numbers for one outer pair. */
static void list_inner(lister *list, muster_scheme scheme, uint32_t smallest)
{
    uint32_t m_max = list->split ? smallest : 1;
    for (scheme.m_w = 1; scheme.m_w <= m_max; scheme.m_w++) {
        for (scheme.s_w = 0; scheme.s_w + scheme.m_w <= smallest;
             scheme.s_w++) {
            bool safe = true;
            for (uint32_t e = 0; safe && e < list->cluster->edge_count; e++) {
                safe = layer_is_safe(list->cluster->edges[e].workers,
                                     scheme.s_w, scheme.m_w);
            }
            scheme.m = scheme.m_e * scheme.m_w;
            if (safe && !muster_scheme_is_uncoded(&scheme)) {
                add(list, scheme);
            }
        }
    }
}

static void list_hier(lister *list)
{
    const muster_cluster *cluster = list->cluster;
    uint32_t smallest = cluster->edges[0].workers;
    uint32_t widest = smallest;
    for (uint32_t e = 1; e < cluster->edge_count; e++) {
        uint32_t workers = cluster->edges[e].workers;
        smallest = workers < smallest ? workers : smallest;
        widest = workers > widest ? workers : widest;
    }
    // No edge may hold more than all parts.
    uint32_t copies_max = cluster->worker_count / widest;
    uint32_t m_max = list->split ? copies_max : 1;
    for (uint32_t m_e = 1; m_e <= m_max; m_e++) {
        for (uint32_t s_e = 0; s_e + m_e <= copies_max; s_e++) {
            if (layer_is_safe(cluster->edge_count, s_e, m_e)) {
                list_inner(list,
                           (muster_scheme){.kind = MUSTER_SCHEME_HIER,
                                           .s_e = s_e,
                                           .m_e = m_e},
                           smallest);
            }
        }
    }
}

bool muster_scheme_is_uncoded(const muster_scheme *scheme)
{
    if (scheme->kind == MUSTER_SCHEME_HIER) {
        return scheme->s_e == 0 && scheme->s_w == 0 && scheme->m_e == 1 &&
               scheme->m_w == 1;
    }
    return scheme->kind == MUSTER_SCHEME_GROUPS && scheme->s == 0 &&
           scheme->m == 1;
}

muster_scheme muster_scheme_uncoded(const muster_cluster *cluster)
{
    return cluster->edge_count > 0
               ? (muster_scheme){.kind = MUSTER_SCHEME_HIER,
                                 .m = 1,
                                 .m_e = 1,
                                 .m_w = 1}
               : (muster_scheme){.kind = MUSTER_SCHEME_GROUPS, .m = 1};
}

bool muster_scheme_list(const muster_cluster *cluster, bool split,
                        muster_vec *schemes_out)
{
    lister list = {cluster, split, schemes_out, false};
    add(&list, muster_scheme_uncoded(cluster));
    list_flat(&list);
    bool equal = speeds_are_equal(&list);
    if (!equal) {
        list_speeds(&list);
    }
    if (cluster->edge_count > 0) {
        list_hier(&list);
    } else {
        list_staged(&list, equal);
    }
    return !list.failed;
}

static const char *family_of(const muster_scheme *scheme,
                             const muster_cluster *cluster)
{
    switch (scheme->kind) {
    case MUSTER_SCHEME_GROUPS:
        if (scheme->m > 1) {
            return "linear:tuned";
        }
        if (scheme->s == 0) {
            return "uncoded";
        }
        return muster_scheme_groups(cluster->worker_count, scheme->s, 1)
                   ? "frc"
                   : "linear:repetition";
    case MUSTER_SCHEME_SPREAD:
        return "ye-abbe-tuned";
    case MUSTER_SCHEME_SPEEDS:
        return "heter";
    case MUSTER_SCHEME_HIER:
        return muster_scheme_is_uncoded(scheme) ? "uncoded" : "hier";
    case MUSTER_SCHEME_IGNORE:
        return "ignore";
    case MUSTER_SCHEME_STAGED:
        return "scheduled";
    }
    return "";
}

bool muster_scheme_by_speed(const muster_scheme *scheme)
{
    return scheme->kind == MUSTER_SCHEME_SPEEDS ||
           (scheme->kind == MUSTER_SCHEME_STAGED &&
            scheme->order == MUSTER_ORDER_SPEEDS);
}

static void name_staged(const muster_scheme *scheme, char *name_out,
                        size_t name_size)
{
    static const char *const orders[] = {"cyclic", "staircase", "speeds"};
    char pieces[24] = "";
    if (scheme->pieces > 1) {
        (void)snprintf(pieces, sizeof(pieces), ",pieces=%u", scheme->pieces);
    }
    (void)snprintf(name_out, name_size, "scheduled:s=%u,order=%s%s", scheme->s,
                   orders[scheme->order], pieces);
}

void muster_scheme_name(const muster_scheme *scheme,
                        const muster_cluster *cluster, char *family_out,
                        size_t family_size, char *name_out, size_t name_size)
{
    const char *family = family_of(scheme, cluster);
    (void)snprintf(family_out, family_size, "%s", family);
    if (scheme->kind == MUSTER_SCHEME_STAGED) {
        name_staged(scheme, name_out, name_size);
    } else if (scheme->kind == MUSTER_SCHEME_HIER) {
        const muster_hier_numbers numbers = {.edge_stragglers = scheme->s_e,
                                             .worker_stragglers = scheme->s_w,
                                             .edge_comm = scheme->m_e,
                                             .worker_comm = scheme->m_w};
        muster_hier_name(&numbers, name_out, name_size);
    } else if (scheme->s_e + scheme->s_w > 0) {
        (void)snprintf(name_out, name_size, "%s:se=%u,sw=%u", family,
                       scheme->s_e, scheme->s_w);
    } else if (scheme->m > 1) {
        // Where groups do not divide n, the estimate is of larger groups.
        bool rest = scheme->kind == MUSTER_SCHEME_GROUPS &&
                    cluster->worker_count % (scheme->s + scheme->m) != 0;
        (void)snprintf(name_out, name_size, "%s:s=%u,m=%u%s", family, scheme->s,
                       scheme->m, rest ? ",rest=groups" : "");
    } else if (muster_scheme_is_uncoded(scheme)) {
        (void)snprintf(name_out, name_size, "%s", family);
    } else {
        (void)snprintf(name_out, name_size, "%s:s=%u", family, scheme->s);
    }
}

char *muster_scheme_topology(const muster_cluster *cluster)
{
    muster_topology topology = {.edges = cluster->edge_count,
                                .workers = cluster->worker_count};
    topology.sizes = muster_mem_array(cluster->edge_count, sizeof(uint32_t));
    if (topology.sizes == NULL) {
        return NULL;
    }
    for (uint32_t e = 0; e < cluster->edge_count; e++) {
        topology.sizes[e] = cluster->edges[e].workers;
    }
    char *text = muster_topology_text(&topology);
    muster_topology_fini(&topology);
    return text;
}

muster_status muster_scheme_build(const muster_scheme *scheme,
                                  const muster_cluster *cluster,
                                  muster_code **code_out)
{
    char family[32];
    char name[96];
    double *speeds = muster_mem_array(cluster->worker_count, sizeof(double));
    char *topology =
        cluster->edge_count > 0 ? muster_scheme_topology(cluster) : NULL;
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (speeds != NULL && (cluster->edge_count == 0 || topology != NULL)) {
        muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
        muster_cluster_speeds(cluster, speeds);
        muster_scheme_name(scheme, cluster, family, sizeof(family), name,
                           sizeof(name));
        opts.name = name;
        opts.workers = cluster->worker_count;
        opts.speeds = muster_scheme_by_speed(scheme) ? speeds : NULL;
        opts.topology = topology;
        status = muster_code_create(&opts, NULL, code_out);
    }
    muster_mem_free(topology);
    muster_mem_free(speeds);
    return status;
}
