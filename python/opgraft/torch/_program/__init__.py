"""What each operator becomes, the program that an export gives, and its report."""
