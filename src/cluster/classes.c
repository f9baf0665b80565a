/*
 * classes.c -- the estimators of cluster/classes.h.
 *
 * Sufficient statistics only: per worker the faded numbers of observations and
 * of straggled ones; for all together the faded transitions. After every
 * `workers` observations (about a step) two rounds of expectation-maximisation
 * start from the last parameters, which is all that a slowly changing stream
 * needs.
 *
 * Invariants: 1. pss >= pns (labels are exchanged when they cross). 2. All
 * rates stay inside [RATE_MIN, 1 - RATE_MIN], so logarithms are finite.
 * 3. An empty slow class is seeded again from the worst worker: left alone at
 * its prior it would never see a worker that straggles a third of the time.
 */
#include "cluster/classes.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

#define RATE_MIN 1e-4
// Classes need a Bayes factor of 20, or the first steps see some by chance.
#define BENEFIT_OF_DOUBT 3.0
#define ROUNDS           2
#define FORMAT           2u
#define FORMAT_UNCOUNTED 1u // without the counts
#define COUNTS           6u
#define HEAD_NUMBERS     16u // see head_of
#define WORKER_BYTES     25u

// Priors, as straggled out of observed pseudo-steps, slow out of workers.
#define PRIOR_WEIGHT 2.0
#define PRIOR_PSS    0.8
#define PRIOR_PNS    0.05
#define PRIOR_SLOW   1.0
#define PRIOR_COUNT  3.0

enum { UNSEEN = 2 }; // a worker's last state before its first observation

typedef struct worker {
    double seen; // faded observations
    double straggled;
    double slow;  // posterior of the class, BERNOULLI
    uint8_t last; // straggled in its last step: 0, 1 or UNSEEN
} worker;

struct muster_classes {
    uint32_t workers;
    double memory;
    double straggle_ratio;
    uint64_t observations;
    double moves[3][2];    // faded transitions, from 0, 1 or UNSEEN
    uint64_t counts[3][2]; // the same, of all observations
    muster_classes_fit fit;
    worker *of;
};

static double clamp(double rate)
{
    return fmin(fmax(rate, RATE_MIN), 1 - RATE_MIN);
}

muster_status muster_classes_create(const muster_classes_opts *opts,
                                    muster_classes **classes_out)
{
    double memory = opts->memory == 0 ? 128 : opts->memory;
    double ratio = opts->straggle_ratio == 0 ? 2 : opts->straggle_ratio;
    if (opts->workers == 0 || !(memory >= 8 && memory <= 1e6) ||
        !(ratio > 1 && isfinite(ratio))) {
        return MUSTER_ERR_INVALID;
    }
    muster_classes *classes = muster_mem_array(1, sizeof(*classes));
    if (classes == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    classes->of = muster_mem_array(opts->workers, sizeof(*classes->of));
    if (classes->of == NULL) {
        muster_mem_free(classes);
        return MUSTER_ERR_NO_MEMORY;
    }
    classes->workers = opts->workers;
    classes->memory = memory;
    classes->straggle_ratio = ratio;
    classes->fit.p_hat = PRIOR_SLOW / PRIOR_COUNT;
    classes->fit.pss = PRIOR_PSS;
    classes->fit.pns = PRIOR_PNS;
    classes->fit.stay_slow = 0.5;
    classes->fit.stay_active = 0.5;
    for (uint32_t i = 0; i < opts->workers; i++) {
        classes->of[i].last = UNSEEN;
    }
    *classes_out = classes;
    return MUSTER_OK;
}

void muster_classes_free(muster_classes *classes)
{
    if (classes != NULL) {
        muster_mem_free(classes->of);
        muster_mem_free(classes);
    }
}

/* Posteriors under the parameters of now; gives the likelihood of the mixture.
 */
static double expect(muster_classes *classes)
{
    muster_classes_fit fit = classes->fit;
    double late[2] = {log(fit.pns), log(fit.pss)};
    double timely[2] = {log1p(-fit.pns), log1p(-fit.pss)};
    double share[2] = {log1p(-fit.p_hat), log(fit.p_hat)};
    double likelihood = 0;
    const worker *like = NULL; // the last one whose posterior was computed
    double sum = 0;
    for (uint32_t i = 0; i < classes->workers; i++) {
        worker *w = &classes->of[i];
        if (like != NULL && w->seen == like->seen &&
            w->straggled == like->straggled) {
            w->slow = like->slow; // most are alike
            likelihood += sum;
            continue;
        }
        like = w;
        double as[2];
        for (int c = 0; c < 2; c++) {
            as[c] = share[c] + w->straggled * late[c] +
                    (w->seen - w->straggled) * timely[c];
        }
        double top = fmax(as[0], as[1]);
        sum = log(exp(as[0] - top) + exp(as[1] - top)) + top;
        w->slow = exp(as[1] - sum);
        likelihood += sum;
    }
    return likelihood;
}

static void exchange_labels(muster_classes *classes)
{
    muster_classes_fit *fit = &classes->fit;
    double pss = fit->pss;
    fit->pss = fit->pns;
    fit->pns = pss;
    fit->p_hat = 1 - fit->p_hat;
    for (uint32_t i = 0; i < classes->workers; i++) {
        classes->of[i].slow = 1 - classes->of[i].slow;
    }
}

/* Parameters from the posteriors. */
static void maximise(muster_classes *classes)
{
    muster_classes_fit *fit = &classes->fit;
    double slow = 0;
    double seen[2] = {PRIOR_WEIGHT, PRIOR_WEIGHT};
    double straggled[2] = {PRIOR_WEIGHT * PRIOR_PNS, PRIOR_WEIGHT * PRIOR_PSS};
    double worst = 0;
    for (uint32_t i = 0; i < classes->workers; i++) {
        const worker *w = &classes->of[i];
        slow += w->slow;
        seen[0] += (1 - w->slow) * w->seen;
        seen[1] += w->slow * w->seen;
        straggled[0] += (1 - w->slow) * w->straggled;
        straggled[1] += w->slow * w->straggled;
        worst = fmax(worst, w->straggled / (w->seen + PRIOR_WEIGHT));
    }
    fit->p_hat = clamp((slow + PRIOR_SLOW) / (classes->workers + PRIOR_COUNT));
    fit->pns = clamp(straggled[0] / seen[0]);
    fit->pss = clamp(straggled[1] / seen[1]);
    if (slow < 0.5 && worst > fit->pns) {
        fit->pss = clamp(worst);
    }
    if (fit->pss < fit->pns) {
        exchange_labels(classes);
    }
}

/* Log-likelihood of `hits` and `others` at the rate fitted to them. */
static double fit_rate(double hits, double others, double *rate_out)
{
    *rate_out = clamp((hits + 0.5) / (hits + others + 1));
    return hits * log(*rate_out) + others * log1p(-*rate_out);
}

static double score_one(const muster_classes *classes, double *total_out)
{
    double seen = 0;
    double straggled = 0;
    for (uint32_t i = 0; i < classes->workers; i++) {
        seen += classes->of[i].seen;
        straggled += classes->of[i].straggled;
    }
    double rate;
    *total_out = seen;
    return fit_rate(straggled, seen - straggled, &rate);
}

/* Per observation times `total`: workers that are heard unevenly fade at other
 * rates than the moves, and likelihoods of unequal numbers do not compare. */
static double score_markov(muster_classes *classes, double total)
{
    double(*moves)[2] = classes->moves;
    double first;
    double likelihood =
        fit_rate(moves[0][0], moves[0][1], &classes->fit.stay_active) +
        fit_rate(moves[1][1], moves[1][0], &classes->fit.stay_slow) +
        fit_rate(moves[UNSEEN][1], moves[UNSEEN][0], &first);
    double count = 0;
    for (int from = 0; from < 3; from++) {
        count += moves[from][0] + moves[from][1];
    }
    return likelihood * total / count;
}

static void sweep(muster_classes *classes)
{
    for (int round = 0; round < ROUNDS; round++) {
        (void)expect(classes);
        maximise(classes);
    }
    double two = expect(classes);
    double total;
    double one = score_one(classes, &total);
    double half_log = log(fmax(total, 2)) / 2;
    muster_classes_fit *fit = &classes->fit;
    fit->score[MUSTER_CLASSES_ONE] = one - half_log + BENEFIT_OF_DOUBT;
    fit->score[MUSTER_CLASSES_BERNOULLI] = two - 3 * half_log;
    fit->score[MUSTER_CLASSES_MARKOV] =
        score_markov(classes, total) - 3 * half_log;
    fit->model = MUSTER_CLASSES_ONE;
    if (fit->score[MUSTER_CLASSES_BERNOULLI] > fit->score[fit->model]) {
        fit->model = MUSTER_CLASSES_BERNOULLI;
    }
    // A chain that avoids its own state is no machine's: chance, early on.
    if (fit->score[MUSTER_CLASSES_MARKOV] > fit->score[fit->model] &&
        fit->stay_slow + fit->stay_active > 1) {
        fit->model = MUSTER_CLASSES_MARKOV;
    }
}

static void fade_moves(muster_classes *classes, double keep)
{
    for (int from = 0; from < 3; from++) {
        classes->moves[from][0] *= keep;
        classes->moves[from][1] *= keep;
    }
}

void muster_classes_observe(muster_classes *classes, uint32_t index, bool late,
                            double arrival)
{
    MUSTER_ASSERT(index < classes->workers);
    bool straggled = arrival > 0 ? arrival > classes->straggle_ratio : late;
    worker *w = &classes->of[index];
    double keep = 1 - 1 / classes->memory;
    w->seen = w->seen * keep + 1;
    w->straggled = w->straggled * keep + straggled;
    if (classes->observations % classes->workers == 0) {
        fade_moves(classes, keep); // once a step: they are shared
    }
    classes->moves[w->last][straggled] += 1;
    classes->counts[w->last][straggled]++;
    w->last = straggled;
    classes->observations++;
    if (classes->observations % classes->workers == 0) {
        sweep(classes);
    }
}

muster_class muster_classes_of(const muster_classes *classes, uint32_t index)
{
    MUSTER_ASSERT(index < classes->workers);
    const worker *w = &classes->of[index];
    const muster_classes_fit *fit = &classes->fit;
    muster_class answer = {.lasting = true};
    if (fit->model == MUSTER_CLASSES_BERNOULLI) {
        answer.probability = w->slow;
    } else if (fit->model == MUSTER_CLASSES_MARKOV && w->last != UNSEEN) {
        answer.lasting = false;
        answer.probability =
            w->last == 1 ? fit->stay_slow : 1 - fit->stay_active;
    }
    answer.slow = answer.probability > 0.5;
    answer.straggle_rate = w->seen > 0 ? w->straggled / w->seen : 0;
    return answer;
}

muster_classes_fit muster_classes_describe(const muster_classes *classes)
{
    return classes->fit;
}

static double ratio(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : (double)NAN;
}

muster_classes_rates muster_classes_count(const muster_classes *classes)
{
    const uint64_t(*counts)[2] = classes->counts;
    uint64_t straggled = counts[0][1] + counts[1][1] + counts[UNSEEN][1];
    uint64_t timely = counts[0][0] + counts[1][0] + counts[UNSEEN][0];
    muster_classes_rates rates = {
        .observed = straggled + timely,
        .straggle = ratio(straggled, straggled + timely),
        .again = ratio(counts[1][1], counts[1][0] + counts[1][1]),
        .begin = ratio(counts[0][1], counts[0][0] + counts[0][1]),
        .spell_steps = ratio(straggled, counts[0][1] + counts[UNSEEN][1]),
    };
    return rates;
}

/* The numbers of the saved state, in order; `head` is both ways. */
static void head_of(muster_classes *classes, double *head[HEAD_NUMBERS])
{
    muster_classes_fit *fit = &classes->fit;
    double *all[HEAD_NUMBERS] = {&classes->memory,
                                 &classes->straggle_ratio,
                                 &classes->moves[0][0],
                                 &classes->moves[0][1],
                                 &classes->moves[1][0],
                                 &classes->moves[1][1],
                                 &classes->moves[2][0],
                                 &classes->moves[2][1],
                                 &fit->p_hat,
                                 &fit->pss,
                                 &fit->pns,
                                 &fit->stay_slow,
                                 &fit->stay_active,
                                 &fit->score[0],
                                 &fit->score[1],
                                 &fit->score[2]};
    memcpy(head, all, sizeof(all));
}

static void put_u64(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t get_u64(const uint8_t *at)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    return value;
}

static void put_double(uint8_t *at, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    put_u64(at, bits);
}

static double get_double(const uint8_t *at)
{
    uint64_t bits = get_u64(at);
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Layout: format, workers, observations, model (8 bytes each), the head, per
 * worker three numbers and the last state, then the counts. */
static size_t saved_size(const muster_classes *classes, uint64_t format)
{
    return 8 * (4 + (size_t)HEAD_NUMBERS) +
           (size_t)classes->workers * WORKER_BYTES +
           (format == FORMAT ? 8 * COUNTS : 0);
}

bool muster_classes_save(const muster_classes *classes, muster_vec *bytes)
{
    size_t size = saved_size(classes, FORMAT);
    uint8_t *out = muster_mem_array(size, 1);
    if (out == NULL) {
        return false;
    }
    muster_classes copy = *classes;
    double *head[HEAD_NUMBERS];
    head_of(&copy, head);
    uint8_t *at = out;
    uint64_t plain[4] = {FORMAT, classes->workers, classes->observations,
                         (uint64_t)classes->fit.model};
    for (int i = 0; i < 4; i++, at += 8) {
        put_u64(at, plain[i]);
    }
    for (unsigned i = 0; i < HEAD_NUMBERS; i++, at += 8) {
        put_double(at, *head[i]);
    }
    for (uint32_t i = 0; i < classes->workers; i++, at += WORKER_BYTES) {
        const worker *w = &classes->of[i];
        put_double(at, w->seen);
        put_double(at + 8, w->straggled);
        put_double(at + 16, w->slow);
        at[24] = w->last;
    }
    for (unsigned i = 0; i < COUNTS; i++, at += 8) {
        put_u64(at, classes->counts[i / 2][i % 2]);
    }
    bool ok = muster_vec_append(bytes, out, size);
    muster_mem_free(out);
    return ok;
}

/* What arithmetic relies on: counts finite and in order, shares in 0..1. */
static bool worker_is_sound(const uint8_t *at)
{
    double seen = get_double(at);
    double straggled = get_double(at + 8);
    double slow = get_double(at + 16);
    return isfinite(seen) && straggled >= 0 && straggled <= seen && slow >= 0 &&
           slow <= 1 && at[24] <= UNSEEN;
}

static bool head_is_sound(const muster_classes *read)
{
    const muster_classes_fit *fit = &read->fit;
    const double rates[] = {fit->p_hat, fit->pss, fit->pns, fit->stay_slow,
                            fit->stay_active};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        if (!(rates[i] >= RATE_MIN && rates[i] <= 1 - RATE_MIN)) {
            return false;
        }
    }
    for (int from = 0; from < 3; from++) {
        for (int to = 0; to < 2; to++) {
            if (!(read->moves[from][to] >= 0 &&
                  isfinite(read->moves[from][to]))) {
                return false;
            }
        }
    }
    return read->memory >= 8 && read->memory <= 1e6 &&
           read->straggle_ratio > 1 && isfinite(read->straggle_ratio);
}

muster_status muster_classes_load(muster_classes *classes, const void *bytes,
                                  size_t size)
{
    const uint8_t *at = bytes;
    uint64_t format = size >= 8 ? get_u64(at) : 0;
    if ((format != FORMAT && format != FORMAT_UNCOUNTED) ||
        size != saved_size(classes, format) ||
        get_u64(at + 8) != classes->workers ||
        get_u64(at + 24) > MUSTER_CLASSES_MARKOV) {
        return MUSTER_ERR_INPUT;
    }
    muster_classes read = *classes;
    read.observations = get_u64(at + 16);
    read.fit.model = (muster_classes_model)get_u64(at + 24);
    double *head[HEAD_NUMBERS];
    head_of(&read, head);
    at += 32;
    for (unsigned i = 0; i < HEAD_NUMBERS; i++, at += 8) {
        *head[i] = get_double(at);
    }
    bool sound = head_is_sound(&read);
    for (uint32_t i = 0; i < read.workers; i++) {
        sound = sound && worker_is_sound(at + (size_t)i * WORKER_BYTES);
    }
    if (!sound) {
        return MUSTER_ERR_INPUT;
    }
    for (uint32_t i = 0; i < read.workers; i++, at += WORKER_BYTES) {
        read.of[i] = (worker){get_double(at), get_double(at + 8),
                              get_double(at + 16), at[24]};
    }
    for (unsigned i = 0; i < COUNTS; i++) {
        read.counts[i / 2][i % 2] =
            format == FORMAT ? get_u64(at + (size_t)i * 8) : 0;
    }
    *classes = read;
    return MUSTER_OK;
}
