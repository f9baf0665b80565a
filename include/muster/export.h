/*
 * muster/export.h -- marks what libmuster.so shows to its users.
 *
 * Everything else in the library is hidden. All exported names carry one symbol
 * version, that of the release series.
 *
 *   Promise      Exported names are the declared ones, all of one version (a
 *                test compares them; tools/exports makes the linker's map).
 *   Not here     What stays between releases: docs/compatibility.md.
 */
#ifndef MUSTER_EXPORT_H
#define MUSTER_EXPORT_H

/* MUSTER_API: the library exports it. MUSTER_CHECKED: the compiler warns when
 * the result is not used. */
#if defined(__GNUC__)
#define MUSTER_API     __attribute__((visibility("default")))
#define MUSTER_CHECKED __attribute__((warn_unused_result))
#else
#define MUSTER_API
#define MUSTER_CHECKED
#endif

#endif // MUSTER_EXPORT_H
