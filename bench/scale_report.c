/*
 * scale_report.c -- what `muster bench scale` found: rows, csv and svg.
 */
#include <inttypes.h>

#include "bench.h"
#include "scale.h"

/* The median of those that are there. */
static double median(const double *values, uint32_t count)
{
    double there[SCALE_REPEATS_MAX];
    size_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (isfinite(values[i])) {
            there[found++] = values[i];
        }
    }
    return bench_median(there, found);
}

/* The mean of those that are there; NAN of none. */
static double mean(const double *values, uint32_t count)
{
    double sum = 0;
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (isfinite(values[i])) {
            sum += values[i];
            found++;
        }
    }
    return found > 0 ? sum / found : NAN;
}

/* Medians of a layout; of the quality, which differs from seed to seed, the
 * mean. */
typedef struct figures {
    double rate;
    double plain;
    double one;   // rate of 1x1
    double apart; // rate of as many runs of 1x1; NAN: there are none
    double efficiency;
    double quality;
    double waits;
} figures;

static figures figures_of(const scale_found *found, const scale_layout *l)
{
    // The one that stops stands behind the one that does not.
    const scale_layout *first =
        l->kind == SCALE_STOPPED ? l - 1 : &found->layouts[0];
    figures f = {.rate = median(l->rates, l->runs),
                 .plain = median(l->plain, l->runs),
                 .one = median(first->rates, first->runs),
                 .quality = mean(l->quality, l->runs),
                 .waits = median(l->waits, l->runs)};
    f.apart = NAN;
    for (uint32_t i = 0; i < found->count && l->threads == 1; i++) {
        const scale_layout *k = &found->layouts[i];
        if (k->kind == SCALE_APART && k->nodes == l->nodes) {
            f.apart = median(k->rates, k->runs);
        }
    }
    uint32_t more = l->kind == SCALE_STOPPED ? 1 : l->nodes * l->threads;
    f.efficiency = f.rate / f.one / more;
    return f;
}

static const char *const kinds[] = {"", "_long", "_stopped", "_apart"};

static void report_layout(const scale_found *found, const scale_layout *l,
                          bool json)
{
    const scale_task *task = found->task;
    figures f = figures_of(found, l);
    char name[64];
    char part[80];
    (void)snprintf(name, sizeof(name), "scale_%s_%" PRIu32 "x%" PRIu32 "%s",
                   task->name, l->nodes, l->threads, kinds[l->kind]);
    const char *to = l->kind == SCALE_STOPPED ? "none stopped" : "1x1";
    bench_print(&(bench_row){name, f.rate, task->unit, to, f.one}, json);
    if (isfinite(f.plain)) {
        (void)snprintf(part, sizeof(part), "%s_plain", name);
        bench_print(
            &(bench_row){part, f.rate, task->unit, "plain loop", f.plain},
            json);
    }
    if (isfinite(f.apart) && l->kind == SCALE_USUAL) {
        (void)snprintf(part, sizeof(part), "%s_limit", name);
        bench_print(&(bench_row){part, f.rate, task->unit, "apart", f.apart},
                    json);
    }
    const struct {
        const char *suffix;
        double value;
        const char *unit;
    } more[] = {{"efficiency", f.efficiency, "share"},
                {"quality", f.quality, task->quality},
                {"waits", f.waits, "share"},
                {"runs", l->runs, "runs"}};
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        (void)snprintf(part, sizeof(part), "%s_%s", name, more[i].suffix);
        bench_print(&(bench_row){part, more[i].value, more[i].unit, NULL, NAN},
                    json);
    }
}

void scale_report(const scale_found *found, bool json)
{
    // The first layout is run first.
    if (!json && found->layouts[0].runs > 0) {
        printf("%s: %s\n", found->task->name, found->size);
    }
    for (uint32_t i = 0; i < found->count; i++) {
        if (found->layouts[i].runs > 0) {
            report_layout(found, &found->layouts[i], json);
        }
    }
}

/* A column of the csv; empty where there is no figure. */
static void write_number(double value, FILE *file)
{
    fputc(',', file);
    if (isfinite(value)) {
        fprintf(file, "%.6g", value);
    }
}

/* The last column of the csv, in quotes: a generator's data has commas. */
static void write_text(const char *text, FILE *file)
{
    fputs(",\"", file);
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            fputc('"', file);
        }
        fputc(*text, file);
    }
    fputs("\"\n", file);
}

static void write_layout(const scale_found *found, const scale_layout *l,
                         FILE *file)
{
    figures f = figures_of(found, l);
    fprintf(file, "%s,%" PRIu32 ",%" PRIu32 ",%s,%" PRIu32, found->task->name,
            l->nodes, l->threads,
            l->kind == SCALE_USUAL ? "usual" : kinds[l->kind] + 1, l->runs);
    write_number(f.rate, file);
    write_number(f.plain, file);
    write_number(f.rate / f.plain, file);
    write_number(f.rate / f.one, file);
    write_number(f.efficiency, file);
    write_number(f.quality, file);
    write_number(f.waits, file);
    write_number(f.rate / f.apart, file);
    write_text(found->size, file);
}

static void write_csv(const scale_found *found, uint32_t count, FILE *file)
{
    fputs("task,nodes,threads,kind,runs,rate,plain,to_plain,to_1x1,efficiency,"
          "quality,wait_share,to_apart,size\n",
          file);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < found[i].count; k++) {
            if (found[i].layouts[k].runs > 0) {
                write_layout(&found[i], &found[i].layouts[k], file);
            }
        }
    }
}

/* The picture: rate over that of 1x1 by number of workers, both logarithmic.
 * Nodes are full lines, threads of one node are dashed. */
enum { LEFT = 50, TOP = 20, SIDE = 320, LEGEND = 180, OCTAVES = 5 };

static const char *const colours[] = {"#1f77b4", "#ff7f0e", "#2ca02c",
                                      "#d62728", "#9467bd"};

static double x_of(double workers)
{
    return LEFT + SIDE * log2(workers) / OCTAVES;
}

/* One octave below 1 has room as well. */
static double y_of(double ratio)
{
    double low = ratio < 0.5 ? 0.5 : ratio;
    return TOP + SIDE * (OCTAVES - log2(low)) / (OCTAVES + 1);
}

static void draw_axes(FILE *file)
{
    for (int i = 0; i <= OCTAVES; i++) {
        double value = exp2(i);
        fprintf(file,
                "<path d='M%.1f %d V%.1f M%d %.1f H%d' stroke='#ddd'/>\n"
                "<text x='%.1f' y='%.1f'>%.0f</text>\n"
                "<text x='%d' y='%.1f'>%.0f</text>\n",
                x_of(value), TOP, y_of(0.5), LEFT, y_of(value), LEFT + SIDE,
                x_of(value) - 4, y_of(0.5) + 16, value, LEFT - 24,
                y_of(value) + 4, value);
    }
    fprintf(file,
            "<path d='M%.1f %.1f L%.1f %.1f' stroke='#999'/>\n"
            "<text x='%d' y='%d'>workers</text>\n"
            "<text x='4' y='14'>rate / rate of 1x1</text>\n",
            x_of(1), y_of(1), x_of(32), y_of(32), LEFT + SIDE - 50,
            TOP + SIDE + 32);
}

static void draw_line(const scale_found *found, const char *colour, bool nodes,
                      FILE *file)
{
    bool begun = false;
    fprintf(file, "<path fill='none' stroke='%s'%s d='", colour,
            nodes ? "" : " stroke-dasharray='4 3'");
    for (uint32_t i = 0; i < found->count; i++) {
        const scale_layout *l = &found->layouts[i];
        figures f = figures_of(found, l);
        bool mine = l->kind != SCALE_USUAL
                        ? false
                        : i == 0 || (nodes ? l->nodes > 1 && l->threads == 1
                                           : l->nodes == 1 && l->threads > 1);
        if (mine && isfinite(f.rate / f.one)) {
            fprintf(file, "%c%.1f %.1f ", begun ? 'L' : 'M',
                    x_of(l->nodes * l->threads), y_of(f.rate / f.one));
            begun = true;
        }
    }
    fputs(begun ? "'/>\n" : "M0 0'/>\n", file);
}

static void write_svg(const scale_found *found, uint32_t count, FILE *file)
{
    fprintf(file,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
            "font-family='sans-serif' font-size='12'>\n"
            "<rect width='100%%' height='100%%' fill='white'/>\n",
            LEFT + SIDE + LEGEND, TOP + SIDE + 40);
    draw_axes(file);
    for (uint32_t i = 0; i < count; i++) {
        const char *colour = colours[i % (sizeof(colours) / sizeof(*colours))];
        draw_line(&found[i], colour, true, file);
        draw_line(&found[i], colour, false, file);
        fprintf(file, "<text x='%d' y='%d' fill='%s'>%s</text>\n",
                LEFT + SIDE + 16, TOP + 16 + 18 * (int)i, colour,
                found[i].task->name);
    }
    fprintf(file,
            "<text x='%d' y='%d'>full: nodes</text>\n"
            "<text x='%d' y='%d'>dashed: threads of one</text>\n"
            "</svg>\n",
            LEFT + SIDE + 16, TOP + SIDE - 20, LEFT + SIDE + 16, TOP + SIDE);
}

static FILE *open_in(const char *folder, const char *name)
{
    char path[4200];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        perror(path);
    }
    return file;
}

bool scale_write(const scale_found *found, uint32_t count, const char *folder)
{
    FILE *csv = open_in(folder, "scale.csv");
    FILE *svg = open_in(folder, "scale.svg");
    if (csv != NULL) {
        write_csv(found, count, csv);
    }
    if (svg != NULL) {
        write_svg(found, count, svg);
    }
    bool csv_good = csv != NULL && fclose(csv) == 0;
    bool svg_good = svg != NULL && fclose(svg) == 0;
    return csv_good && svg_good;
}
