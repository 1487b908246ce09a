# docs/engines.md says what the engines say of themselves.
seam_test(engines_doc LINK test_support SOURCES test_engines_doc.c ARGS doc=${PROJECT_SOURCE_DIR}/docs/engines.md LABELS short)
