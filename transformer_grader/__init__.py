"""The instructor's grader: marks by values, the student's code alone in a sandbox (book/instructors.md)."""
