/*
 * muster/export.h -- marks what libmuster.so shows to its users.
 *
 * Everything else in the library is hidden; a test compares the exported names
 * with the declared ones.
 */
#ifndef MUSTER_EXPORT_H
#define MUSTER_EXPORT_H

#if defined(__GNUC__)
#define MUSTER_API     __attribute__((visibility("default")))
#define MUSTER_CHECKED __attribute__((warn_unused_result))
#else
#define MUSTER_API
#define MUSTER_CHECKED
#endif

#endif // MUSTER_EXPORT_H
