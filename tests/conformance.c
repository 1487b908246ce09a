/* conformance.c - test_conformance ENGINE-SPEC: what <seam/seam.h> promises, asked of one engine.
 *
 * The same tests run for every engine, plain and under wrappers; an engine may differ only in what
 * struct seam_limits says. */
#include "conformance.h"

int main(int argc, char **argv)
{
    int failed = 0;
    int rc;

    if (argc == 5 && strcmp(argv[1], "--child") == 0)
        return conformance_child(argv[2], argv[3], argv[4]);
    rc = support_begin(argc, argv);
    if (rc != 0)
        return rc;
    failed += conformance_text();
    failed += conformance_open();
    failed += conformance_close();
    failed += conformance_commit();
    failed += conformance_ticket();
    failed += conformance_limits();
    failed += conformance_outcomes();
    failed += conformance_read();
    failed += conformance_floor();
    failed += conformance_cursor();
    failed += conformance_nomem();
    return failed != 0;
}
